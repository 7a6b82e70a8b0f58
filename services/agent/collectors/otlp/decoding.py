"""Requests and responses of OTLP's trace service, as protobuf or JSON, by `opentelemetry-proto`.

Needs the extra `otlp`. OTLP/JSON is protobuf's JSON, except that ids are in hex, not in base64:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

import base64
import json
from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import MessageToJson, ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from services.agent.collectors.otlp.spans import ExportedEvent, ExportedSpan, checked_ns

MAX_NESTING = 32
"""How deep lists and maps of an attribute's value may be nested."""

_HEX_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def spans_in_protobuf(body: bytes) -> list[ExportedSpan]:
    """Return the spans of a request in protobuf. Raises ValueError, which says what is wrong."""
    try:
        return _spans(ExportTraceServiceRequest.FromString(body))
    except DecodeError as error:
        raise ValueError(str(error)) from error


def spans_in_json(body: bytes) -> list[ExportedSpan]:
    """Return the spans of a request in JSON. Raises ValueError, which says what is wrong."""
    try:
        request = json.loads(body, object_hook=_with_base64_ids)
        if not isinstance(request, dict):
            raise ValueError("the request is not a JSON object")
        message = ExportTraceServiceRequest()
        ParseDict(request, message, ignore_unknown_fields=True)
    except RecursionError:
        raise ValueError("values are nested too deep") from None
    except (ParseError, AttributeError, TypeError) as error:
        raise ValueError(str(error)) from error
    return _spans(message)


def response(rejected: int, *, is_json: bool) -> bytes:
    """Return the body of the answer to a request of which `rejected` spans were dropped."""
    message = ExportTraceServiceResponse()
    if rejected:
        message.partial_success.rejected_spans = rejected
        message.partial_success.error_message = "too many spans are waiting to be read"
    return MessageToJson(message).encode() if is_json else bytes(message.SerializeToString())


def _with_base64_ids(values: dict[str, Any]) -> dict[str, Any]:
    """Return an object of OTLP/JSON with its ids as protobuf's JSON has them."""
    return {
        name: base64.b64encode(bytes.fromhex(value)).decode()
        if name in _HEX_IDS and isinstance(value, str)
        else value
        for name, value in values.items()
    }


def _spans(request: Any) -> list[ExportedSpan]:
    return [
        ExportedSpan(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            name=span.name,
            start_ns=checked_ns(span.start_time_unix_nano, "startTimeUnixNano"),
            end_ns=checked_ns(span.end_time_unix_nano, "endTimeUnixNano"),
            kind=span.kind,
            status=span.status.code,
            status_message=span.status.message,
            attributes=_attributes(span.attributes),
            events=tuple(
                ExportedEvent(
                    event.name,
                    checked_ns(event.time_unix_nano, "timeUnixNano"),
                    _attributes(event.attributes),
                )
                for event in span.events
            ),
            service=str(_attributes(resource.resource.attributes).get("service.name", "")),
            scope=scope.scope.name,
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _attributes(pairs: Iterable[Any], depth: int = 0) -> dict[str, Any]:
    return {pair.key: _value(pair.value, depth) for pair in pairs}


def _value(value: Any, depth: int) -> Any:
    """Return an AnyValue as Python's; bytes as base64, since rows hold JSON. Raises ValueError."""
    if depth > MAX_NESTING:
        raise ValueError("values are nested too deep")
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(element, depth + 1) for element in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values, depth + 1)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case kind:
            return getattr(value, kind)
