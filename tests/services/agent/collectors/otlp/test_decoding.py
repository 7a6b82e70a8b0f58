"""Reading OTLP: what the official library writes is read back, anything else is refused."""

import base64
import contextlib
import json
import math
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.otlp.decoding import spans_in_json, spans_in_protobuf
from services.agent.collectors.otlp.spans import ExportedEvent, ExportedSpan, collected_spans
from tests.services.agent.collectors.exports import EXPORTS, an_export, as_json
from tests.thoroughness import examples


def value_of(told: AnyValue) -> Any:
    """Return a value as the official library reads it."""
    kind = told.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in told.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(told.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(told.bytes_value).decode()
    return None if kind is None else getattr(told, kind)


def attributes_of(told: Any) -> dict[str, Any]:
    """Return attributes as the official library reads them."""
    return {each.key: value_of(each.value) for each in told}


def spans_of(export: ExportTraceServiceRequest) -> list[ExportedSpan]:
    """Return the spans of an export as the official library reads them."""
    return [
        ExportedSpan(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.kind,
            span.status.code,
            span.status.message,
            attributes_of(span.attributes),
            tuple(
                ExportedEvent(each.name, each.time_unix_nano, attributes_of(each.attributes))
                for each in span.events
            ),
            str(attributes_of(resource.resource.attributes).get("service.name", "")),
            scoped.scope.name,
        )
        for resource in export.resource_spans
        for scoped in resource.scope_spans
        for span in scoped.spans
    ]


@settings(deadline=None, max_examples=examples(120))
@given(export=EXPORTS)
def test_what_the_official_library_writes_is_read_back(export: ExportTraceServiceRequest) -> None:
    expected = spans_of(export)
    assert spans_in_protobuf(export.SerializeToString()) == expected
    assert spans_in_json(as_json(export)) == expected


@settings(deadline=None, max_examples=examples(150))
@given(export=EXPORTS, data=st.data())
def test_altered_bodies_are_read_or_refused(export: Message, data: st.DataObject) -> None:
    body = bytearray(export.SerializeToString() or b"\x0a\x00")
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    altered = bytes(body[: data.draw(st.integers(0, len(body)))])
    for read in (spans_in_protobuf, spans_in_json):
        try:
            assert all(isinstance(each, ExportedSpan) for each in read(altered))
        except ValueError:
            continue


PLACES = (
    "resourceSpans",
    "resource",
    "attributes",
    "scopeSpans",
    "scope",
    "spans",
    "spanId",
    "name",
    "kind",
    "status",
    "events",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "key",
    "value",
    "stringValue",
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda each: (
        st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=3), each, max_size=2)
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=examples(200))
@given(
    place=st.sampled_from(PLACES),
    found=_JSON,
)
def test_json_of_other_shapes_is_read_or_refused(place: str, found: Any) -> None:
    def altered(told: Any) -> Any:
        if isinstance(told, dict):
            return {name: found if name == place else altered(each) for name, each in told.items()}
        return [altered(each) for each in told] if isinstance(told, list) else told

    event = {"name": "e", "timeUnixNano": "3", "attributes": []}
    export = an_export("a", 1, 5, kind=2, status={"code": 1}, events=[event])
    with contextlib.suppress(ValueError):
        assert len(spans_in_json(json.dumps(altered(export)).encode())) <= 3


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"intValue": "-9223372036854775808"}, -(1 << 63)),
        ({"intValue": 7}, 7),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": 2}, 2.0),
        ({"stringValue": None, "boolValue": True}, True),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {}]}}, ["a", None]),
        ({}, None),
    ],
)
def test_values_in_json(value: dict[str, Any], read: Any) -> None:
    told = an_export("a", 1, 2, attributes=[{"key": "k", "value": value}])
    (span,) = spans_in_json(json.dumps(told).encode())
    assert (span.attributes, span.service, span.scope) == ({"k": read}, "shop", "lib")


def test_values_without_bottom_are_refused() -> None:
    value: dict[str, Any] = {"stringValue": "here"}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    told = an_export("a", 1, 2, attributes=[{"key": "k", "value": value}])
    body = json.dumps(told).encode()
    with pytest.raises(ValueError, match="too deep"):
        spans_in_json(body)
    with pytest.raises(ValueError, match="too deep"):
        spans_in_json(b'{"a":' + b"[" * 100_000)
    deep = AnyValue(string_value="here")
    for _ in range(40):
        outer = AnyValue()
        outer.array_value.values.append(deep)
        deep = outer
    export = ExportTraceServiceRequest()
    span = export.resource_spans.add().scope_spans.add().spans.add()
    span.attributes.add(key="k").value.CopyFrom(deep)
    with pytest.raises(ValueError, match="too deep"):
        spans_in_protobuf(export.SerializeToString())


def test_times_that_no_row_holds_are_refused() -> None:
    for start in (-1, 1 << 63):
        with pytest.raises(ValueError, match="startTimeUnixNano"):
            spans_in_json(json.dumps(an_export("a", start, 5)).encode())
    with pytest.raises(ValueError, match="endTimeUnixNano"):
        spans_in_protobuf(
            ExportTraceServiceRequest(
                resource_spans=[
                    {"scope_spans": [{"spans": [{"end_time_unix_nano": (1 << 64) - 1}]}]}
                ]
            ).SerializeToString()
        )


CLOCK = ClockMap(Pair(1_000, 501_000), Pair(2_000, 502_000))


def _told(name: str, parent: str, start_ns: int, end_ns: int, **more: Any) -> ExportedSpan:
    return ExportedSpan("t", name, parent, name, 500_000 + start_ns, 500_000 + end_ns, **more)


def test_spans_have_their_own_parents_and_times() -> None:
    event = ExportedEvent("miss", 501_150, {"key": "a"})
    inner = _told("inner", "outer", 1_100, 1_200, events=(event,), attributes={"thread.id": 7})
    outer = _told("outer", "sent", 1_050, 1_400, kind=2, status=2, service="shop")
    alone = _told("alone", "gone", 1_300, 1_300)
    spans = collected_spans([inner, alone, outer], CLOCK, {"sent": 0})
    told = [(each.name, each.start_ns, each.duration_ns, each.parent) for each in spans]
    assert told == [
        ("outer", 1_050, 350, 0),
        ("inner", 1_100, 100, 1),
        ("alone", 1_300, 0, -1),
        ("miss", 1_150, 0, 2),
    ]
    assert [each.thread for each in spans] == [0, 7, 0, 7]
    assert spans[3].attributes == {"key": "a"}
    assert spans[0].attributes == {
        "service.name": "shop",
        "otel.kind": "server",
        "otel.status_code": "error",
        "otel.trace_id": "t",
        "otel.span_id": "outer",
    }


@settings(deadline=None, max_examples=examples(100))
@given(parents=st.lists(st.integers(-1, 7), min_size=1, max_size=8))
def test_nobody_is_its_own_ancestor(parents: list[int]) -> None:
    told = [_told(f"{n}", f"{up}", 1_000, 1_000) for n, up in enumerate(parents)]
    spans = collected_spans(told, CLOCK, {"sent": 0})
    for first in spans:
        at, steps = first.parent, 0
        while at > 0:
            at, steps = spans[at - 1].parent, steps + 1
            assert steps <= len(spans)
