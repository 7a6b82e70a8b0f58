"""Chrome's trace events (JSON): for ui.perfetto.dev, chrome://tracing, speedscope, HTA.

Times are microseconds from the run's origin, which the head has in epoch ns. The arguments hold
every span as it is stored, so that `mlscope import` restores it exactly. A span that reaches beyond
its parent is drawn clipped; spans that overlap on a thread, as waiting queries do, are drawn on
further rows, because viewers accept only slices that nest or follow one another.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import IO, Any

from mlscope.exchange.traces import DEVICES, HOST, Trace, clipped, lanes, level_name
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

VERSION = "1"
_HOST_PID = 1


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
    for number, event in enumerate(_events(trace)):
        file.write(b",\n" if number else b"\n")
        file.write(json.dumps(event, separators=(",", ":")).encode())
    file.write(b"\n]}\n")


def _events(trace: Trace) -> Iterator[dict[str, Any]]:
    stored = {span.span: span for span in trace.spans}
    yield _named("process_name", trace.run.agent or "host", _HOST_PID)
    rows = _rows(trace)
    for pid in sorted({pid for pid, _, _ in rows.numbers} - {_HOST_PID}):
        yield _named("process_name", f"device {pid - _HOST_PID - 1}", pid)
    for (pid, thread, lane), tid in sorted(rows.numbers.items()):
        title = f"{'thread' if pid == _HOST_PID else 'stream'} {thread}"
        yield _named("thread_name", title + (f" ({lane})" if lane else ""), pid, tid)
    for drawn in clipped(trace.spans):
        span = stored[drawn.span]
        place = rows.of_span.get(span.span, {"pid": _HOST_PID, "tid": span.thread})
        yield _complete(drawn, span, place)
        ts = drawn.start_ns / 1000
        if span.kind == SpanKind.SAMPLE:
            value = json.loads(span.attributes or "{}").get("value")
            counter = {"ph": "C", "name": span.name, "pid": _HOST_PID, "ts": span.start_ns / 1000}
            yield {**counter, "args": {"value": value}}
        elif span.correlation >= 0:
            arrow = {"id": span.correlation, "cat": "ac2g", "name": "ac2g", **place, "ts": ts}
            if span.kind == SpanKind.LAUNCH:
                yield {"ph": "s", **arrow}
            elif span.kind in DEVICES:
                yield {"ph": "f", "bp": "e", **arrow}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Numbers (`tid`) of rows by process, thread and lane, and each span's `pid` and `tid`."""

    numbers: Mapping[tuple[int, int, int], int]
    of_span: Mapping[int, Mapping[str, int]]


def _rows(trace: Trace) -> _Rows:
    """Return the rows: a thread's first row has its number, further ones have unused numbers."""
    unused = count(max((span.thread for span in trace.spans), default=0) + 1)
    numbers: dict[tuple[int, int, int], int] = {}
    of_span: dict[int, Mapping[str, int]] = {}
    for (device, thread, lane), drawn in sorted(lanes(trace.spans).items()):
        pid = _HOST_PID if device == HOST else _HOST_PID + 1 + device
        tid = numbers[pid, thread, lane] = next(unused) if lane else thread
        place = {"pid": pid, "tid": tid}
        of_span |= {span.span: place for span in drawn}
    return _Rows(numbers, of_span)


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
