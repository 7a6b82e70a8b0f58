"""OTLP as protobuf (ExportTraceServiceRequest), read field by field without a library. Pure.

Fields are numbered as in opentelemetry/proto/{trace,common,resource}/v1/*.proto; unknown ones, and
known ones of another wire type, are passed over, as protobuf's own readers do.
"""

import base64
import struct
from collections.abc import Iterator
from typing import Any

from mlscope.datasets.protobuf import BYTES, EIGHT, VARINT, fields, signed
from services.agent.collectors.otlp_spans import MOST_NESTED, ToldEvent, ToldSpan, checked_ns

_RESOURCE_SPANS, _RESOURCE, _SCOPE_SPANS = 1, 1, 2
_SCOPE, _SPANS, _SCOPE_NAME = 1, 2, 1
_ATTRIBUTES_OF_RESOURCE, _ATTRIBUTES_OF_EVENT, _ATTRIBUTES = 1, 3, 9
_STATUS_MESSAGE, _STATUS_CODE = 2, 3


def spans_in_protobuf(body: bytes) -> list[ToldSpan]:
    """Return the spans of a request. Raises ValueError, which says what is wrong."""
    return [
        span
        for resource in _messages(memoryview(body), _RESOURCE_SPANS)
        for span in _spans_of_resource(resource)
    ]


def _spans_of_resource(body: memoryview) -> Iterator[ToldSpan]:
    service = ""
    for resource in _messages(body, _RESOURCE):
        service = str(_attributes(resource, _ATTRIBUTES_OF_RESOURCE).get("service.name", service))
    for scoped in _messages(body, _SCOPE_SPANS):
        scope = ""
        for each in _messages(scoped, _SCOPE):
            scope = _text(each, _SCOPE_NAME) or scope
        for span in _messages(scoped, _SPANS):
            yield _span(span, service, scope)


def _span(body: memoryview, service: str, scope: str) -> ToldSpan:
    found = {(number, wire): value for number, wire, value in fields(body)}
    nothing = memoryview(b"")
    status = found.get((15, BYTES), nothing)
    return ToldSpan(
        trace_id=found.get((1, BYTES), nothing).hex(),
        span_id=found.get((2, BYTES), nothing).hex(),
        parent_id=found.get((4, BYTES), nothing).hex(),
        name=str(found.get((5, BYTES), nothing), "utf-8"),
        start_ns=checked_ns(_whole(found.get((7, EIGHT), nothing)), "start_time_unix_nano"),
        end_ns=checked_ns(_whole(found.get((8, EIGHT), nothing)), "end_time_unix_nano"),
        kind=_enum(found.get((6, VARINT), nothing)),
        status=_enum(_last(status, _STATUS_CODE, VARINT)),
        status_message=_text(status, _STATUS_MESSAGE),
        attributes=_attributes(body, _ATTRIBUTES),
        events=tuple(_event(each) for each in _messages(body, 11)),
        service=service,
        scope=scope,
    )


def _event(body: memoryview) -> ToldEvent:
    at_ns = checked_ns(_whole(_last(body, 1, EIGHT)), "time_unix_nano")
    return ToldEvent(_text(body, 2), at_ns, _attributes(body, _ATTRIBUTES_OF_EVENT))


def _attributes(body: memoryview, number: int, depth: int = 0) -> dict[str, Any]:
    """Return the KeyValues of a field. Raises ValueError."""
    return {
        _text(each, 1): _value(_last(each, 2, BYTES), depth) for each in _messages(body, number)
    }


def _value(body: memoryview, depth: int) -> Any:
    """Return an AnyValue: the last that was set; bytes as base64. Raises ValueError."""
    if depth > MOST_NESTED:
        raise ValueError("its values lie too deep in each other")
    found: Any = None
    for number, wire, value in fields(body):
        if number == 1 and wire == BYTES:
            found = str(value, "utf-8")
        elif number == 2 and wire == VARINT:
            found = any(value)
        elif number == 3 and wire == VARINT:
            found = signed(_whole(value))
        elif number == 4 and wire == EIGHT:
            (found,) = struct.unpack("<d", value)
        elif number == 5 and wire == BYTES:
            found = [_value(each, depth + 1) for each in _messages(value, 1)]
        elif number == 6 and wire == BYTES:
            found = _attributes(value, 1, depth + 1)
        elif number == 7 and wire == BYTES:
            found = base64.b64encode(value).decode()
    return found


def _messages(body: memoryview, number: int) -> Iterator[memoryview]:
    for found, wire, value in fields(body):
        if found == number and wire == BYTES:
            yield value


def _last(body: memoryview, number: int, kind: int) -> memoryview:
    """Return a field's last value, empty where there is none."""
    last = memoryview(b"")
    for found, wire, value in fields(body):
        if (found, wire) == (number, kind):
            last = value
    return last


def _text(body: memoryview, number: int) -> str:
    return str(_last(body, number, BYTES), "utf-8")


def _whole(value: memoryview) -> int:
    return int.from_bytes(value, "little")


def _enum(value: memoryview) -> int:
    """Return an enum's number, an int32: what lies beyond is cut off as protobuf does."""
    number = _whole(value) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number
