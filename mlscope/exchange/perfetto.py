"""Perfetto's protobuf trace: smaller than JSON and read at once, names stored once.

Written field by field (protos/perfetto/trace in Perfetto's sources), as no library is needed for
so few: a track a lane, slices as begin and end, arrows from launches to what they started, sampled
series as counters.
"""

import json
import struct
from collections.abc import Iterator
from typing import IO

from mlscope.exchange.traces import DEVICES, HOST, Trace, lanes, level_name, nested
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_BEGIN, _END, _COUNTER = 1, 2, 4
_SEQUENCE = 1
_CLEARED, _NEEDED = 1, 2
_PID, _HOST_TRACK = 1, 1


def varint(value: int) -> bytes:
    """Return an unsigned number, seven bits a byte, low ones first; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a field that is a number."""
    return varint(field << 3 | _VARINT) + varint(value)


def text(field: int, value: bytes | str) -> bytes:
    """Return a field that is a text or a message."""
    body = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(body)) + body


def eight(field: int, body: bytes) -> bytes:
    """Return a field of eight bytes."""
    return varint(field << 3 | _FIXED64) + body


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run; stamps are ns from its origin."""
    for packet in _packets(trace):
        file.write(text(1, packet))


def _packets(trace: Trace) -> Iterator[bytes]:
    names: dict[str, int] = {}
    yield _descriptor(_HOST_TRACK, process=trace.run.agent or "host", pid=_PID)
    yield number(10, _SEQUENCE) + number(13, _CLEARED)
    drawn = sorted(lanes(trace.spans).items())
    devices = sorted({device for (device, _, _), _ in drawn} - {HOST})
    parents = {device: track for track, device in enumerate(devices, _HOST_TRACK + 1)}
    for device, track in parents.items():
        name = f"device {device} ({trace.run.device})"
        yield _descriptor(track, process=name, pid=_PID + 1 + device)
    first = _HOST_TRACK + 1 + len(parents)
    for track, ((device, thread, lane), spans) in enumerate(drawn, first):
        parent = parents.get(device, _HOST_TRACK)
        kind = "thread" if device == HOST else "stream"
        title = f"{kind} {thread}" + (f" ({lane})" if lane else "")
        yield _descriptor(track, name=title, parent=parent)
        for opens, at_ns, span in nested(spans):
            yield _slice(track, at_ns, span, names) if opens else _event(at_ns, track, _END)
    yield from _counters(trace, first + len(drawn))


def _descriptor(
    track: int, *, process: str = "", name: str = "", parent: int = 0, pid: int = 0
) -> bytes:
    body = number(1, track)
    if process:
        body += text(3, number(1, pid) + text(6, process))
    if name:
        body += text(2, name) + number(5, parent)
    return text(60, body)


def _slice(track: int, at_ns: int, span: SpanRow, names: dict[str, int]) -> bytes:
    """Return the packet of a span's begin; a name met first is told with it."""
    new = b""
    if span.name not in names:
        names[span.name] = len(names) + 1
        new = text(12, text(2, number(1, names[span.name]) + text(2, span.name)))
    body = number(10, names[span.name]) + text(22, level_name(span))
    body += _note("span", span.span) + _note("query", span.query)
    if span.attributes:
        body += text(4, text(10, "attributes") + text(6, span.attributes))
    if span.correlation >= 0 and (span.kind in DEVICES or span.kind == SpanKind.LAUNCH):
        body += eight(47, struct.pack("<Q", span.correlation))
    return new + _event(at_ns, track, _BEGIN, body)


def _note(name: str, value: int) -> bytes:
    return text(4, text(10, name) + number(4, value))


def _event(at_ns: int, track: int, kind: int, body: bytes = b"") -> bytes:
    event = number(9, kind) + number(11, track) + body
    return number(8, max(at_ns, 0)) + number(10, _SEQUENCE) + number(13, _NEEDED) + text(11, event)


def _counters(trace: Trace, first: int) -> Iterator[bytes]:
    samples = [span for span in trace.spans if span.kind == SpanKind.SAMPLE]
    tracks = {name: first + n for n, name in enumerate(dict.fromkeys(s.name for s in samples))}
    for name, track in tracks.items():
        yield text(60, number(1, track) + text(2, name) + number(5, _HOST_TRACK) + text(8, b""))
    for span in samples:
        value = json.loads(span.attributes or "{}").get("value")
        if isinstance(value, int | float):
            body = eight(44, struct.pack("<d", value))
            yield _event(span.start_ns, tracks[span.name], _COUNTER, body)
