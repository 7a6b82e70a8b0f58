"""Chrome's trace events (JSON): for ui.perfetto.dev, chrome://tracing, speedscope, HTA.

Stamps are microseconds from the run's origin, which the head tells in epoch ns; the arguments hold
every span as it is stored, so that `mlscope import` gets back the same. What sticks out of its
parent is drawn clipped.
"""

import json
from collections.abc import Iterator
from typing import IO, Any

from mlscope.exchange.traces import DEVICES, Trace, clipped, level_name
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
    stored = {span.span: span for span in trace.spans}
    for number, event in enumerate(_events(trace, stored)):
        file.write(b",\n" if number else b"\n")
        file.write(json.dumps(event, separators=(",", ":")).encode())
    file.write(b"\n]}\n")


def _events(trace: Trace, stored: dict[int, SpanRow]) -> Iterator[dict[str, Any]]:
    yield _named("process_name", trace.run.agent or "host", _HOST_PID)
    for pid in sorted({_pid(span) for span in trace.spans} - {_HOST_PID}):
        yield _named("process_name", f"device {pid - _HOST_PID - 1}", pid)
    for drawn in clipped(trace.spans):
        span = stored[drawn.span]
        yield _complete(drawn, span)
        if span.kind == SpanKind.SAMPLE:
            yield _counter(span)
        elif span.correlation >= 0:
            yield from _arrow(drawn)


def _named(kind: str, name: str, pid: int) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": 0, "args": {"name": name}}


def _pid(span: SpanRow) -> int:
    """Return the process a span is drawn in: the host, or its device."""
    if span.kind not in DEVICES:
        return _HOST_PID
    device = json.loads(span.attributes or "{}").get("device")
    return _HOST_PID + 1 + (device if isinstance(device, int) and device >= 0 else 0)


def _complete(drawn: SpanRow, span: SpanRow) -> dict[str, Any]:
    args: dict[str, Any] = {
        "span": span.span,
        # what was found is not what was captured: it is found again after an import
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
        "pid": _pid(span),
        "tid": span.thread,
        "ts": drawn.start_ns / 1000,
        "dur": drawn.duration_ns / 1000,
        "args": args,
    }


def _counter(span: SpanRow) -> dict[str, Any]:
    value = json.loads(span.attributes or "{}").get("value")
    return {
        "ph": "C",
        "name": span.name,
        "pid": _HOST_PID,
        "ts": span.start_ns / 1000,
        "args": {"value": value},
    }


def _arrow(span: SpanRow) -> Iterator[dict[str, Any]]:
    shared = {
        "id": span.correlation,
        "cat": "ac2g",
        "name": "ac2g",
        "pid": _pid(span),
        "tid": span.thread,
        "ts": span.start_ns / 1000,
    }
    if span.kind == SpanKind.LAUNCH:
        yield {"ph": "s", **shared}
    elif span.kind in DEVICES:
        yield {"ph": "f", "bp": "e", **shared}
