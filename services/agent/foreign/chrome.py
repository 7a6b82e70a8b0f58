"""Chrome's trace events (JSON) as a frame: what torch.profiler, mlscope and others write.

torch.profiler's layout, an event to a block of lines, is turned into JSON lines chunk by chunk, and
each is read by the other cores while the next is turned; its arrows are left out. Any other layout
is read as one JSON text. Stamps are microseconds from the file's own base.
"""

import io
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from services.agent.foreign.errors import ForeignFileBroken, ForeignFileUnknown
from services.agent.foreign.lenient import frame_of
from services.agent.foreign.pairs import INSTANTS, paired, with_chains
from services.agent.foreign.recording import EARLIEST_NS, LATEST_NS, LONGEST_NS

MOST_BYTES = 4 << 30
MOST_LENIENT_BYTES = 1 << 30
"""What takes ten times its size: events among which a value is not of the usual kind."""

_ARGS = pl.Struct(
    {
        "correlation": pl.Int64,
        "stream": pl.Int64,
        "device": pl.Int64,
        "bytes": pl.Int64,
        "registers per thread": pl.Int64,
        "shared memory": pl.Int64,
        "grid": pl.List(pl.Int64),
        "block": pl.List(pl.Int64),
        "graph node id": pl.Int64,
        # of metadata, `ph` M: what a process or thread is called
        "name": pl.String,
        # what our own exports say of each span
        "span": pl.Int64,
        "parent": pl.Int64,
        "level": pl.Int64,
        "kind": pl.Int64,
        "query": pl.Int64,
        "run_block": pl.Int64,
        "thread": pl.Int64,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "attributes": pl.String,
    }
)
EVENT_SCHEMA: dict[str, Any] = {
    "ph": pl.String,
    "cat": pl.String,
    "name": pl.String,
    "pid": pl.String,
    "tid": pl.String,
    "ts": pl.Float64,
    "dur": pl.Float64,
    "id": pl.String,
    "id2": pl.Struct({"local": pl.String, "global": pl.String}),
    "scope": pl.String,
    "args": _ARGS,
}
SHAPES = ("Input Dims", "Input type", "Concrete Inputs")
"""Arguments that torch.profiler writes where it was told to record shapes: read as JSON texts."""
_BETWEEN = b"\n  },\n  {"
_ARROWS = tuple(b'\n    "ph": "%s"' % phase for phase in (b"s", b"t", b"f"))
"""How its flow events begin: two for each launch, which is half of all, and of no use here."""
_EDGE = b" }\0{"
_CHUNK_BYTES = 4 << 20
_ONE_A_LINE = bytes.maketrans(b"\n\0", b" \n")
_EVENTS = b'"traceEvents"'
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_HAS_SHAPES = re.compile(rb'"record_shapes"\s*:\s*(1|true)')
_LIST = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{")
_TEXT = rb'"%s"\s*:\s*"([^"]*)"'
_DEVICE = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{[^}]*?"name"\s*:\s*"([^"]*)"')
_MARK = b"\xef\xbb\xbf"
_NO_NAMES = pl.DataFrame(schema={"ph": pl.String, "name": pl.String, "pid": pl.String})


@dataclass(frozen=True, slots=True)
class Events:
    """A file's complete events (EVENT_SCHEMA), others by what they are, and what its head says."""

    frame: pl.DataFrame
    #: points in time, and what processes and threads are called
    instants: pl.DataFrame = field(default_factory=lambda: _NO_NAMES)
    names: pl.DataFrame = field(default_factory=lambda: _NO_NAMES)
    #: begins without end, ends without begin
    unpaired: int = 0
    #: complete ones whose times are none, or beyond what spans hold
    untimed: int = 0
    base_ns: int = 0
    accelerator: str = ""
    host: str = ""
    #: the version of mlscope's exports, '' in other files; they name the rest too, and say
    #: whether spans are missing at their end
    mlscope: str = ""
    is_cut: bool = False
    framework: str = ""
    device: str = ""


def read_events(path: Path, schema: Mapping[str, Any] | None = None) -> Events:
    """Return the events of a file. Raises ForeignFileBroken, ForeignFileUnknown.

    Begins and ends (`pairs`) are complete events, too. `schema` may leave out arguments, which is
    faster; by default it is EVENT_SCHEMA, with SHAPES where the file's head says that it has them.
    Memory is about four times the file's size.
    """
    body = _bytes(path)
    if _LIST.match(body):
        body = _as_object(body)
    start = body.find(_EVENTS)
    if start < 0:
        raise ForeignFileUnknown(str(path), "has no traceEvents")
    head = body[:start] + body[body.rfind(b"]") :]
    events = _frame(path, body, start, schema or _schema_of(head)).with_columns(_stamp())
    kinds = pl.col("ph")
    halves = paired(events)
    whole = pl.concat([events.filter(kinds == "X"), halves.frame])
    frame = whole.filter(_is_timed())
    if not frame.height:
        raise ForeignFileBroken(
            str(path), "holds no complete event (ph X, or B and its E) with a time"
        )
    base, accelerator = _BASE.search(head), _DEVICE.search(head)
    return Events(
        frame,
        with_chains(events.filter(kinds.is_in(INSTANTS))),
        events.filter(kinds == "M"),
        halves.unpaired,
        whole.height - frame.height,
        base_ns=int(base.group(1)) if base else 0,
        accelerator=accelerator.group(1).decode("utf-8", "replace") if accelerator else "",
        host=_text(head, b"host_name"),
        mlscope=_text(head, b"mlscope"),
        is_cut=b'"isCut": true' in head,
        framework=_text(head, b"framework"),
        device=_text(head, b"device"),
    )


def _schema_of(head: bytes) -> Mapping[str, Any]:
    """Return what is to be read of a file whose head says so."""
    if not _HAS_SHAPES.search(head):
        return EVENT_SCHEMA
    args = pl.Struct([*_ARGS.fields, *(pl.Field(name, pl.String) for name in SHAPES)])
    return {**EVENT_SCHEMA, "args": args}


def _stamp() -> pl.Expr:
    """Return events' stamps, null where they are no times (NaN, infinite, centuries away)."""
    is_time = pl.col("ts").is_between(EARLIEST_NS / 1000, LATEST_NS / 1000)
    return pl.when(is_time).then("ts").alias("ts")


def _is_timed() -> pl.Expr:
    """Say of complete events whether they have a time; without a duration it is none."""
    lasts = pl.col("dur").fill_null(0).is_between(0, LONGEST_NS / 1000)
    return pl.col("ts").is_not_null() & lasts


def _as_object(body: bytes) -> bytes:
    """Return a file that is a list of events, whose end may be missing, as the usual object."""
    events = body.removeprefix(_MARK).strip().removesuffix(b"]").rstrip().removesuffix(b",")
    return b'{"traceEvents": ' + events + b"]}"


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ForeignFileBroken(str(path), f"is larger than {MOST_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ForeignFileBroken(str(path), error.strerror or str(error)) from error


def _frame(path: Path, body: bytes, start: int, schema: Mapping[str, Any]) -> pl.DataFrame:
    opening = body.find(b"[", start)
    closing = body.rfind(b"]")
    rest = body[closing + 1 :].strip()
    if opening < 0 or closing < opening or not rest.endswith(b"}"):
        raise ForeignFileBroken(str(path), "is cut short: its events do not end")
    events = body[opening : closing + 1]
    try:
        if events.count(_BETWEEN, 0, 1 << 20):
            return _torch_frame(events, schema)
        if SHAPES[0] in {each.name for each in schema["args"].fields}:
            return _frame_of_line(events, schema)
        return pl.read_json(io.BytesIO(events), schema=dict(schema))
    except pl.exceptions.PolarsError:
        # One value of another kind is enough; tools put anything into arguments.
        return _leniently(path, body[opening:], schema)


def _leniently(path: Path, events: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    if len(events) > MOST_LENIENT_BYTES:
        raise ForeignFileBroken(
            str(path), f"holds values of other kinds, and more than {MOST_LENIENT_BYTES} bytes"
        )
    try:
        return frame_of(events, schema)
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise ForeignFileBroken(str(path), f"is no JSON of trace events: {error}") from error


def _torch_frame(events: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    with ThreadPoolExecutor(1) as reader:
        parts = [
            reader.submit(pl.read_ndjson, lines, schema=dict(schema)) for lines in _lines(events)
        ]
        return pl.concat([pl.DataFrame(schema=dict(schema)), *(part.result() for part in parts)])


def _frame_of_line(events: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return events of any layout; of JSON lines texts take lists, which `read_json` refuses."""
    line = b'{"events": %s}' % events.replace(b"\n", b" ")
    told = pl.read_ndjson(line, schema={"events": pl.List(pl.Struct(dict(schema)))})
    return told.explode("events").unnest("events")


def _lines(events: bytes, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield torch.profiler's events as JSON lines: no text has a raw newline in it."""
    begin, last = events.find(b"{") + 1, events.rfind(b"}")
    while begin < last:
        cut = events.find(_BETWEEN, begin + chunk_bytes, last)
        end = last if cut < 0 else cut
        told = events[begin:end].split(_BETWEEN)
        kept = [event for event in told if not event.startswith(_ARROWS)]
        if kept:
            yield b"{%s }" % _EDGE.join(kept).translate(_ONE_A_LINE)
        begin = end + len(_BETWEEN)
    if rest := events[last + 1 : -1].strip():
        # Of an event that was cut: whoever reads the lines refuses it.
        yield rest.translate(_ONE_A_LINE)


def _text(head: bytes, key: bytes) -> str:
    """Return a text of a file's head, '' where there is none."""
    found = re.search(_TEXT % key, head)
    return found.group(1).decode("utf-8", "replace") if found else ""
