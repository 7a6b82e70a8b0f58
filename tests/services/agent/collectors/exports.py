"""Exports of OpenTelemetry: as the official protobuf library writes them, and as hand-made JSON."""

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_NS = st.integers(0, (1 << 63) - 1)
_IDS = ("traceId", "spanId", "parentSpanId")


def _values(children: Any) -> Any:
    listed = st.lists(children, max_size=3)
    mapped = st.lists(st.tuples(st.text(max_size=4), children), max_size=3)
    return st.one_of(
        listed.map(lambda each: {"array_value": {"values": each}}),
        mapped.map(
            lambda each: {"kvlist_value": {"values": [{"key": k, "value": v} for k, v in each]}}
        ),
    )


_SIMPLE = st.one_of(
    st.just({}),
    st.text(max_size=5).map(lambda each: {"string_value": each}),
    st.booleans().map(lambda each: {"bool_value": each}),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda each: {"int_value": each}),
    st.floats(allow_nan=False).map(lambda each: {"double_value": each}),
    st.binary(max_size=5).map(lambda each: {"bytes_value": each}),
)
_VALUE = st.recursive(_SIMPLE, _values, max_leaves=5)
_ATTRIBUTES = st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": _VALUE}), max_size=4
)
_EVENT = st.fixed_dictionaries(
    {"time_unix_nano": _NS, "name": st.text(max_size=5), "attributes": _ATTRIBUTES}
)
_LINK = st.fixed_dictionaries(
    {"trace_id": st.binary(max_size=16), "span_id": st.binary(max_size=8)}
)
_SPAN = st.fixed_dictionaries(
    {
        "trace_id": st.binary(max_size=16),
        "span_id": st.binary(max_size=8),
        "parent_span_id": st.binary(max_size=8),
        "trace_state": st.text(max_size=4),
        "flags": st.integers(0, (1 << 32) - 1),
        "name": st.text(max_size=8),
        "kind": st.integers(0, 5),
        "start_time_unix_nano": _NS,
        "end_time_unix_nano": _NS,
        "attributes": _ATTRIBUTES,
        "dropped_attributes_count": st.integers(0, 9),
        "events": st.lists(_EVENT, max_size=2),
        "links": st.lists(_LINK, max_size=2),
        "status": st.fixed_dictionaries(
            {"message": st.text(max_size=5), "code": st.integers(0, 2)}
        ),
    }
)
_SCOPED = st.fixed_dictionaries(
    {
        "scope": st.fixed_dictionaries({"name": st.text(max_size=5)}),
        "spans": st.lists(_SPAN, max_size=2),
    }
)
_RESOURCE = st.fixed_dictionaries(
    {
        "resource": st.fixed_dictionaries({"attributes": _ATTRIBUTES}),
        "scope_spans": st.lists(_SCOPED, max_size=2),
        "schema_url": st.text(max_size=4),
    }
)
EXPORTS = st.lists(_RESOURCE, max_size=2).map(
    lambda each: ExportTraceServiceRequest(resource_spans=each)
)
"""Any export of a few spans."""


def as_json(export: ExportTraceServiceRequest) -> bytes:
    """Return an export as OTLP/JSON: protobuf's, with ids in hex and numbers for enums."""
    request = MessageToDict(export, use_integers_for_enums=True)
    for resource in request.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for holder in (span, *span.get("links", ())):
                    ids = {name: holder[name] for name in _IDS if name in holder}
                    holder |= {name: base64.b64decode(id_).hex() for name, id_ in ids.items()}
    return json.dumps(request).encode()


def an_export(name: str, start_ns: int, end_ns: int, **more: Any) -> dict[str, Any]:
    """Return one span of a service called `shop` as OTLP/JSON."""
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": name,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(end_ns),
        **more,
    }
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [service]},
                "scopeSpans": [{"scope": {"name": "lib"}, "spans": [span]}],
            }
        ]
    }
