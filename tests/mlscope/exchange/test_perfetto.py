"""Perfetto's trace, read back with protobuf's own library from the fields of Perfetto's sources."""

from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings

from mlscope.exchange.perfetto import write
from mlscope.exchange.traces import Trace
from schemas.batch import SpanKind
from tests.mlscope.exchange.traces import ON_TWO_DEVICES, SMALL, TRACES
from tests.thoroughness import examples

# Without stubs of its own.
descriptor_pb2: Any = import_module("google.protobuf.descriptor_pb2")
descriptor_pool: Any = import_module("google.protobuf.descriptor_pool")
message_factory: Any = import_module("google.protobuf.message_factory")

_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Trace": {"packet": (1, "*TracePacket")},
    "TracePacket": {
        "timestamp": (8, "uint64"),
        "sequence": (10, "uint32"),
        "track_event": (11, "TrackEvent"),
        "interned": (12, "InternedData"),
        "flags": (13, "uint32"),
        "descriptor": (60, "TrackDescriptor"),
    },
    "TrackDescriptor": {
        "uuid": (1, "uint64"),
        "name": (2, "string"),
        "process": (3, "ProcessDescriptor"),
        "parent_uuid": (5, "uint64"),
        "counter": (8, "Counter"),
    },
    "ProcessDescriptor": {"pid": (1, "int32"), "process_name": (6, "string")},
    "Counter": {},
    "InternedData": {"event_names": (2, "*EventName")},
    "EventName": {"iid": (1, "uint64"), "name": (2, "string")},
    "TrackEvent": {
        "annotations": (4, "*Annotation"),
        "type": (9, "int32"),
        "name_iid": (10, "uint64"),
        "track_uuid": (11, "uint64"),
        "categories": (22, "*string"),
        "double_counter": (44, "double"),
        "flow_ids": (47, "*fixed64"),
    },
    "Annotation": {
        "int_value": (4, "int64"),
        "string_value": (6, "string"),
        "name": (10, "string"),
    },
}


@pytest.fixture(scope="module", name="kind")
def trace_kind() -> Any:
    """Return the class of a trace, made of the fields above."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto2")
    field = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for label, (number, told) in fields.items():
            made = message.field.add(name=label, number=number)
            made.label = field.LABEL_REPEATED if told[0] == "*" else field.LABEL_OPTIONAL
            of = told.lstrip("*")
            if of in _FIELDS:
                made.type, made.type_name = field.TYPE_MESSAGE, f".t.{of}"
            else:
                made.type = getattr(field, f"TYPE_{of.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Trace"))


def _decoded(kind: Any, trace: Trace) -> Any:
    file = BytesIO()
    write(trace, file)
    return kind.FromString(file.getvalue())


def test_slices_have_names_tracks_levels_and_arrows(kind: Any) -> None:
    packets = _decoded(kind, SMALL).packet
    names = {n.iid: n.name for p in packets for n in p.interned.event_names}
    begins = [p for p in packets if p.track_event.type == 1]
    slices = [names[p.track_event.name_iid] for p in begins]
    assert slices == ["query", "predict", "conv;1", "launch", "here", "gemm"]
    tracks = {p.descriptor.uuid: p.descriptor for p in packets if p.HasField("descriptor")}
    gemm = begins[5].track_event
    assert tracks[gemm.track_uuid].name == "stream 13"
    assert list(gemm.flow_ids) == list(begins[3].track_event.flow_ids) == [7]
    assert list(gemm.categories) == ["system"]
    assert {a.name: a.int_value or a.string_value for a in gemm.annotations}["span"] == 5
    (counter,) = [p for p in packets if p.track_event.type == 4]
    assert (counter.timestamp, counter.track_event.double_counter) == (500, 1.5)


def test_devices_are_processes_of_their_own(kind: Any) -> None:
    packets = _decoded(kind, ON_TWO_DEVICES).packet
    told = {p.descriptor.uuid: p.descriptor for p in packets if p.HasField("descriptor")}
    drawn = [told[p.track_event.track_uuid] for p in packets if p.track_event.type == 1]
    rows = [(told[each.parent_uuid].process.process_name, each.name) for each in drawn]
    assert rows == [("device 0 (cuda)", "stream 7"), ("device 1 (cuda)", "stream 7")]


@settings(deadline=None, max_examples=examples(60))
@given(trace=TRACES)
def test_on_every_track_slices_open_and_close_in_order(kind: Any, trace: Trace) -> None:
    depth: dict[int, int] = {}
    last: dict[int, int] = {}
    packets = _decoded(kind, trace).packet
    for packet in packets:
        event = packet.track_event
        if event.type in (1, 2):
            depth[event.track_uuid] = depth.get(event.track_uuid, 0) + (
                1 if event.type == 1 else -1
            )
            assert depth[event.track_uuid] >= 0
            assert packet.timestamp >= last.get(event.track_uuid, 0)
            last[event.track_uuid] = packet.timestamp
    assert not any(depth.values())
    drawn = [each for each in trace.spans if each.kind != SpanKind.SAMPLE]
    assert sum(p.track_event.type == 1 for p in packets) == len(drawn)
    iids = [n.iid for p in packets for n in p.interned.event_names]
    assert len(iids) == len({each.name for each in drawn})
