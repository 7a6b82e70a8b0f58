"""Chrome's trace events (JSON): for ui.perfetto.dev, chrome://tracing, speedscope, HTA.

Times are microseconds from the run's origin, which the head has in epoch ns. The arguments hold
every span as it is stored, so that `mlscope import` restores it exactly. A span that reaches beyond
its parent is drawn clipped; spans that overlap on a thread, as waiting queries do, are drawn on
further rows, because viewers accept only slices that nest or follow one another.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import IO, Any, Self

from mlscope.exchange.traces import DEVICES, HOST, Trace, clipped, lanes, level_name
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

VERSION = "1"
_HOST_PID = 1
_ARROW_ENDS: Mapping[int, Mapping[str, str]] = {
    SpanKind.LAUNCH: {"ph": "s"},
    **{kind: {"ph": "f", "bp": "e"} for kind in DEVICES},
}


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run as a trace."""
    run = trace.run
    head = {
        "schemaVersion": 1,
        "mlscope": VERSION,
        "evaluation": trace.evaluation,
        "run": run.run,
        "model": run.model,
        "framework": run.framework,
        "device": run.device,
        "host_name": run.agent,
        "baseTimeNanoseconds": run.epoch_ns,
        "displayTimeUnit": "ns",
        "isCut": trace.is_cut,
    }
    file.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [')
    rows = _Rows.of(trace)
    events = chain(_row_names(trace, rows), _span_events(trace, rows))
    for number, event in enumerate(events):
        file.write(b",\n" if number else b"\n")
        file.write(json.dumps(event, separators=(",", ":")).encode())
    file.write(b"\n]}\n")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Numbers (`tid`) of rows by process, thread and lane, and each span's `pid` and `tid`."""

    numbers: Mapping[tuple[int, int, int], int]
    of_span: Mapping[int, Mapping[str, int]]

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """Return the rows: a thread's first row has its number, further ones unused numbers."""
        unused = count(max((span.thread for span in trace.spans), default=0) + 1)
        numbers: dict[tuple[int, int, int], int] = {}
        of_span: dict[int, Mapping[str, int]] = {}
        for (device, thread, lane), drawn in sorted(lanes(trace.spans).items()):
            pid = _HOST_PID if device == HOST else _HOST_PID + 1 + device
            tid = numbers[pid, thread, lane] = next(unused) if lane else thread
            place = {"pid": pid, "tid": tid}
            of_span |= {span.span: place for span in drawn}
        return cls(numbers, of_span)


def _row_names(trace: Trace, rows: _Rows) -> Iterator[dict[str, Any]]:
    yield _named("process_name", trace.run.agent or "host", _HOST_PID)
    for pid in sorted({pid for pid, _, _ in rows.numbers} - {_HOST_PID}):
        yield _named("process_name", f"device {pid - _HOST_PID - 1}", pid)
    for (pid, thread, lane), tid in sorted(rows.numbers.items()):
        title = f"{'thread' if pid == _HOST_PID else 'stream'} {thread}"
        yield _named("thread_name", title + (f" ({lane})" if lane else ""), pid, tid)


def _span_events(trace: Trace, rows: _Rows) -> Iterator[dict[str, Any]]:
    """Yield each span, the counter of a sample, and the arrow from a launch to its device work."""
    stored = {span.span: span for span in trace.spans}
    for drawn in clipped(trace.spans):
        span = stored[drawn.span]
        place = rows.of_span.get(span.span, {"pid": _HOST_PID, "tid": span.thread})
        yield _complete(drawn, span, place)
        if span.kind == SpanKind.SAMPLE:
            value = json.loads(span.attributes or "{}").get("value")
            counter = {"ph": "C", "name": span.name, "pid": _HOST_PID, "ts": span.start_ns / 1000}
            yield {**counter, "args": {"value": value}}
        if span.correlation >= 0 and span.kind in _ARROW_ENDS:
            arrow = {"id": span.correlation, "cat": "ac2g", "name": "ac2g"}
            yield {**_ARROW_ENDS[span.kind], **arrow, **place, "ts": drawn.start_ns / 1000}


def _named(kind: str, name: str, pid: int, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _complete(drawn: SpanRow, span: SpanRow, place: Mapping[str, int]) -> dict[str, Any]:
    args: dict[str, Any] = {
        "span": span.span,
        # a parent that the analyzer found is found again after an import
        "parent": span.parent if span.method in ("captured", "") else None,
        "level": span.level,
        "kind": span.kind,
        "query": span.query,
        "run_block": span.block,
        "thread": span.thread,
        "start_ns": span.start_ns,
        "duration_ns": span.duration_ns,
        "correlation": span.correlation,
    }
    if span.attributes:
        args["attributes"] = span.attributes
    return {
        "ph": "X",
        "cat": level_name(span),
        "name": span.name,
        **place,
        "ts": drawn.start_ns / 1000,
        "dur": drawn.duration_ns / 1000,
        "args": args,
    }
