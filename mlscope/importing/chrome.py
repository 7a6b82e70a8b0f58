"""Files of Chrome's trace events (JSON), as torch.profiler, mlscope and others write them (I/O).

torch.profiler's layout, one event to a block of lines, is converted to JSON lines chunk by chunk;
each chunk is parsed on other cores while the next is converted, and its arrows are left out. Any
other layout is parsed as one JSON text.
"""

import io
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from mlscope.importing.errors import ForeignFileBroken, ForeignFileUnknown
from mlscope.importing.event_pairs import INSTANTS, paired, with_chains
from mlscope.importing.events import ARGUMENTS, EVENT_SCHEMA, SHAPES, Events
from mlscope.importing.files import read_within
from mlscope.importing.json_frames import frame_of
from mlscope.importing.recording import MAX_DURATION_NS, MAX_START_NS, MIN_START_NS

MAX_BYTES = 4 << 30
MAX_IRREGULAR_BYTES = 1 << 30
"""Of a file with values of unexpected types, which takes ten times its size in memory."""

_SEPARATOR = b"\n  },\n  {"
"""Between two of torch.profiler's events."""
_ARROWS = tuple(b'\n    "ph": "%s"' % phase for phase in (b"s", b"t", b"f"))
"""How its flow events begin: two for each launch, half of all events, and not needed here."""
_JOINT = b" }\0{"
_CHUNK_BYTES = 4 << 20
_TO_LINES = bytes.maketrans(b"\n\0", b" \n")
_EVENTS = b'"traceEvents"'
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_HAS_SHAPES = re.compile(rb'"record_shapes"\s*:\s*(1|true)')
_LIST = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{")
_TEXT = rb'"%s"\s*:\s*"([^"]*)"'
_DEVICE = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{[^}]*?"name"\s*:\s*"([^"]*)"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_events(path: Path, schema: Mapping[str, Any] | None = None) -> Events:
    """Return the events of a file. Raises ForeignFileBroken, ForeignFileUnknown.

    Pairs of begin and end (`event_pairs`) become complete events. `schema`: the columns to read; by
    default EVENT_SCHEMA, with SHAPES where the file's head says that it has them. Fewer arguments
    are faster to read. Memory is about four times the file's size.
    """
    body = read_within(path, MAX_BYTES)
    if _LIST.match(body):
        # A list of events, whose end may be missing, becomes the usual object.
        listed = body.removeprefix(_BYTE_ORDER_MARK).strip()
        listed = listed.removesuffix(b"]").rstrip().removesuffix(b",")
        body = b'{"traceEvents": ' + listed + b"]}"
    start = body.find(_EVENTS)
    if start < 0:
        raise ForeignFileUnknown(str(path), "has no traceEvents")
    head = body[:start] + body[body.rfind(b"]") :]
    if schema is None and _HAS_SHAPES.search(head):
        shapes = (pl.Field(name, pl.String) for name in SHAPES)
        schema = {**EVENT_SCHEMA, "args": pl.Struct([*ARGUMENTS.fields, *shapes])}
    is_time = pl.col("ts").is_between(MIN_START_NS / 1000, MAX_START_NS / 1000)
    events = _parsed(path, body, start, schema or EVENT_SCHEMA).with_columns(
        pl.when(is_time).then("ts").alias("ts")
    )
    phase = pl.col("ph")
    pairs = paired(events)
    complete = pl.concat([events.filter(phase == "X"), pairs.frame])
    # A missing duration is 0.
    is_duration = pl.col("dur").fill_null(0).is_between(0, MAX_DURATION_NS / 1000)
    frame = complete.filter(pl.col("ts").is_not_null() & is_duration)
    if not frame.height:
        raise ForeignFileBroken(
            str(path), "holds no complete event (ph X, or B and its E) with a time"
        )
    base, accelerator = _BASE.search(head), _DEVICE.search(head)
    return Events(
        frame,
        with_chains(events.filter(phase.is_in(INSTANTS))),
        events.filter(phase == "M"),
        pairs.unpaired,
        complete.height - frame.height,
        base_ns=int(base.group(1)) if base else 0,
        accelerator=accelerator.group(1).decode("utf-8", "replace") if accelerator else "",
        host=_text(head, b"host_name"),
        mlscope=_text(head, b"mlscope"),
        is_cut=b'"isCut": true' in head,
        framework=_text(head, b"framework"),
        device=_text(head, b"device"),
    )


def json_lines(events: bytes, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield torch.profiler's events as JSON lines, which have no raw newline in a text.

    `events`: the list, with brackets. `chunk_bytes`: about how much of it a yielded text holds.
    """
    begin, last = events.find(b"{") + 1, events.rfind(b"}")
    while begin < last:
        cut = events.find(_SEPARATOR, begin + chunk_bytes, last)
        end = last if cut < 0 else cut
        chunk = events[begin:end].split(_SEPARATOR)
        without_arrows = [event for event in chunk if not event.startswith(_ARROWS)]
        if without_arrows:
            yield b"{%s }" % _JOINT.join(without_arrows).translate(_TO_LINES)
        begin = end + len(_SEPARATOR)
    if remainder := events[last + 1 : -1].strip():
        # Of an event that was cut: the parser refuses it.
        yield remainder.translate(_TO_LINES)


def _parsed(path: Path, body: bytes, start: int, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the events of a body from `start` on, by the fastest parser that can read them."""
    opening, closing = body.find(b"[", start), body.rfind(b"]")
    if opening < 0 or closing < opening or not body[closing + 1 :].strip().endswith(b"}"):
        raise ForeignFileBroken(str(path), "is cut short: its events do not end")
    events = body[opening : closing + 1]
    try:
        if events.count(_SEPARATOR, 0, 1 << 20):
            with ThreadPoolExecutor(1) as pool:
                chunks = [
                    pool.submit(pl.read_ndjson, lines, schema=dict(schema))
                    for lines in json_lines(events)
                ]
                empty = pl.DataFrame(schema=dict(schema))
                return pl.concat([empty, *(chunk.result() for chunk in chunks)])
        if SHAPES[0] in {argument.name for argument in schema["args"].fields}:
            # Only as JSON lines may a text column be given a list.
            line = b'{"events": %s}' % events.replace(b"\n", b" ")
            rows = pl.read_ndjson(line, schema={"events": pl.List(pl.Struct(dict(schema)))})
            return rows.explode("events").unnest("events")
        return pl.read_json(io.BytesIO(events), schema=dict(schema))
    except pl.exceptions.PolarsError:
        pass  # One value of another type is enough; tools put anything into arguments.
    if len(body) - opening > MAX_IRREGULAR_BYTES:
        reason = f"holds values of unexpected types and more than {MAX_IRREGULAR_BYTES} bytes"
        raise ForeignFileBroken(str(path), reason)
    try:
        return frame_of(body[opening:], schema)
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise ForeignFileBroken(str(path), f"is not JSON of trace events: {error}") from error


def _text(head: bytes, key: bytes) -> str:
    """Return a text of a file's head, '' where there is none."""
    match = re.search(_TEXT % key, head)
    return match.group(1).decode("utf-8", "replace") if match else ""
