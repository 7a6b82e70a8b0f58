"""OTLP/JSON: an ExportTraceServiceRequest as protobuf's JSON, but ids in hex, enums numbers. Pure.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding; 64-bit numbers may be texts.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from services.agent.collectors.otlp_spans import MOST_NESTED, ToldEvent, ToldSpan, checked_ns

T = TypeVar("T")
_HEX = re.compile(r"[0-9a-fA-F]*")
_WHOLE = re.compile(r"-?[0-9]{1,20}")


def spans_in_json(body: bytes) -> list[ToldSpan]:
    """Return the spans of a request. Raises ValueError, which says what is wrong."""
    try:
        told = json.loads(body)
    except RecursionError:
        raise ValueError("its values lie too deep in each other") from None
    if not isinstance(told, dict):
        raise ValueError("is no JSON object")
    return [
        span for resource in _maps(told, "resourceSpans") for span in _spans_of_resource(resource)
    ]


def _spans_of_resource(told: Mapping[str, Any]) -> Iterator[ToldSpan]:
    resource = _attributes(_of(told, "resource", dict, {}))
    service = str(resource.get("service.name", ""))
    for scoped in _maps(told, "scopeSpans"):
        scope = _of(_of(scoped, "scope", dict, {}), "name", str, "")
        for span in _maps(scoped, "spans"):
            yield _span(span, service, scope)


def _span(told: Mapping[str, Any], service: str, scope: str) -> ToldSpan:
    status = _of(told, "status", dict, {})
    return ToldSpan(
        trace_id=_id(told, "traceId"),
        span_id=_id(told, "spanId"),
        parent_id=_id(told, "parentSpanId"),
        name=_of(told, "name", str, ""),
        start_ns=checked_ns(_number(told, "startTimeUnixNano"), "startTimeUnixNano"),
        end_ns=checked_ns(_number(told, "endTimeUnixNano"), "endTimeUnixNano"),
        kind=_number(told, "kind"),
        status=_number(status, "code"),
        status_message=_of(status, "message", str, ""),
        attributes=_attributes(told),
        events=tuple(
            ToldEvent(
                _of(each, "name", str, ""),
                checked_ns(_number(each, "timeUnixNano"), "timeUnixNano"),
                _attributes(each),
            )
            for each in _maps(told, "events")
        ),
        service=service,
        scope=scope,
    )


def _attributes(told: Mapping[str, Any], key: str = "attributes", depth: int = 0) -> dict[str, Any]:
    return {
        _of(each, "key", str, ""): _value(_of(each, "value", dict, {}), depth)
        for each in _maps(told, key)
    }


def _value(told: Mapping[str, Any], depth: int) -> Any:
    """Return an AnyValue; bytes stay base64, as JSON has no other. Raises ValueError."""
    if depth > MOST_NESTED:
        raise ValueError("its values lie too deep in each other")
    for key, found in told.items():
        if found is None:
            continue
        if key in ("stringValue", "boolValue"):
            return _of(told, key, str if key == "stringValue" else bool, None)
        if key == "intValue":
            return _number(told, key)
        if key == "doubleValue":
            return _real(found)
        if key == "arrayValue":
            values = _maps(_of(told, key, dict, {}), "values")
            return [_value(each, depth + 1) for each in values]
        if key == "kvlistValue":
            return _attributes(_of(told, key, dict, {}), "values", depth + 1)
        if key == "bytesValue":
            return base64.b64encode(base64.b64decode(_of(told, key, str, ""))).decode()
    return None


def _real(found: Any) -> float:
    """Return a double: a number, or its text as for NaN and Infinity. Raises ValueError."""
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise ValueError(f"doubleValue is {type(found).__name__}")
    try:
        return float(found)
    except OverflowError:
        raise ValueError("doubleValue is beyond what a double holds") from None


def _number(told: Mapping[str, Any], key: str) -> int:
    """Return a whole number, which may be a text; 0 where it is absent. Raises ValueError."""
    found = told.get(key)
    if found is None:
        return 0
    if isinstance(found, str) and _WHOLE.fullmatch(found):
        return int(found)
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"{key} is {found!r:.40}, no whole number")
    return found


def _id(told: Mapping[str, Any], key: str) -> str:
    found: str = _of(told, key, str, "").lower()
    if not _HEX.fullmatch(found):
        raise ValueError(f"{key} {found:.40} is not in hex")
    return found


def _maps(told: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found: list[Any] = _of(told, key, list, [])
    if not all(isinstance(each, dict) for each in found):
        raise ValueError(f"{key} holds more than objects")
    return found


def _of(told: Mapping[str, Any], key: str, kind: type, absent: Any) -> Any:
    """Return a value of a kind, `absent` where there is none. Raises ValueError for another."""
    found = told.get(key)
    if found is None:
        return absent
    if not isinstance(found, kind):
        raise ValueError(f"{key} is {type(found).__name__}, no {kind.__name__}")
    return found
