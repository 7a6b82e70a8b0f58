"""Perfetto's protobuf trace: smaller than JSON and faster to load, with each name stored once.

Each lane is a track, with slices as begin and end events, arrows from launches to the device work
that they started, and sampled series as counters. Field numbers: protos/perfetto/trace in
Perfetto's sources.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from typing import IO

from mlscope.exchange.traces import DEVICES, HOST, Trace, lanes, level_name, nested
from mlscope.protobuf import bytes_field, fixed64_field, varint_field
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

_BEGIN, _END, _COUNTER = 1, 2, 4
"""Of TrackEvent.Type."""
_SEQUENCE = 1
_CLEARED, _NEEDED = 1, 2
"""Of TracePacket.SequenceFlags."""
_PID, _HOST_TRACK = 1, 1


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run; times are ns from its origin."""
    for packet in _packets(trace):
        file.write(bytes_field(1, packet))


def _packets(trace: Trace) -> Iterator[bytes]:
    names: dict[str, int] = {}
    yield _descriptor(_HOST_TRACK, process=trace.run.agent or "host", pid=_PID)
    yield varint_field(10, _SEQUENCE) + varint_field(13, _CLEARED)
    drawn = sorted(lanes(trace.spans).items())
    devices = sorted({device for (device, _, _), _ in drawn} - {HOST})
    parents = {device: track for track, device in enumerate(devices, _HOST_TRACK + 1)}
    for device, track in parents.items():
        name = f"device {device} ({trace.run.device})"
        yield _descriptor(track, process=name, pid=_PID + 1 + device)
    first_lane = _HOST_TRACK + 1 + len(parents)
    for track, ((device, thread, lane), spans) in enumerate(drawn, first_lane):
        kind = "thread" if device == HOST else "stream"
        title = f"{kind} {thread}" + (f" ({lane})" if lane else "")
        yield _descriptor(track, name=title, parent=parents.get(device, _HOST_TRACK))
        for is_begin, at_ns, span in nested(spans):
            if is_begin:
                yield _event(at_ns, track, _BEGIN, *_slice_fields(span, names))
            else:
                yield _event(at_ns, track, _END)
    yield from counter_packets(trace.spans, first_lane + len(drawn))


def counter_packets(spans: Sequence[SpanRow], first_track: int) -> Iterator[bytes]:
    """Yield a track for each name of the samples among `spans`, then an event for each value.

    The tracks have numbers from `first_track` on. Samples without a number have no event.
    """
    samples = [span for span in spans if span.kind == SpanKind.SAMPLE]
    series = enumerate(dict.fromkeys(span.name for span in samples), first_track)
    counters = {name: track for track, name in series}
    for name, track in counters.items():
        described = varint_field(1, track) + bytes_field(2, name)
        yield bytes_field(60, described + varint_field(5, _HOST_TRACK) + bytes_field(8, b""))
    for span in samples:
        value = json.loads(span.attributes or "{}").get("value")
        if isinstance(value, int | float):
            body = fixed64_field(44, struct.pack("<d", value))
            yield _event(span.start_ns, counters[span.name], _COUNTER, body)


def _descriptor(
    track: int, *, process: str = "", name: str = "", parent: int = 0, pid: int = 0
) -> bytes:
    """Return the packet that describes a track: of a process, or of a lane below a parent."""
    body = varint_field(1, track)
    if process:
        body += bytes_field(3, varint_field(1, pid) + bytes_field(6, process))
    if name:
        body += bytes_field(2, name) + varint_field(5, parent)
    return bytes_field(60, body)


def _slice_fields(span: SpanRow, names: dict[str, int]) -> tuple[bytes, bytes]:
    """Return the fields of a span's begin event, and the packet's fields that define a new name.

    `names`: the ids of the names so far; a new one is added.
    """
    new_name = b""
    if span.name not in names:
        names[span.name] = len(names) + 1
        interned = varint_field(1, names[span.name]) + bytes_field(2, span.name)
        new_name = bytes_field(12, bytes_field(2, interned))
    body = varint_field(10, names[span.name]) + bytes_field(22, level_name(span))
    for name, value in (("span", span.span), ("query", span.query)):
        body += bytes_field(4, bytes_field(10, name) + varint_field(4, value))
    if span.attributes:
        body += bytes_field(4, bytes_field(10, "attributes") + bytes_field(6, span.attributes))
    if span.correlation >= 0 and (span.kind in DEVICES or span.kind == SpanKind.LAUNCH):
        body += fixed64_field(47, struct.pack("<Q", span.correlation))
    return body, new_name


def _event(at_ns: int, track: int, kind: int, body: bytes = b"", new_name: bytes = b"") -> bytes:
    """Return the packet of a track event; `new_name` defines a name that it refers to."""
    packet = new_name + varint_field(8, max(at_ns, 0))
    packet += varint_field(10, _SEQUENCE) + varint_field(13, _NEEDED)
    return packet + bytes_field(11, varint_field(9, kind) + varint_field(11, track) + body)
