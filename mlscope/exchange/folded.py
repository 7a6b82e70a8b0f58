"""Folded stacks for a flame graph: a line a path, with the ns spent in it and in none below.

Host and device time are two roots: a kernel runs beside the call that launched it, not in it.
"""

from collections import Counter
from typing import IO

from mlscope.exchange.traces import DEVICES, Trace
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

_MOST_DEEP = 100


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run, paths in order."""
    by_id = {span.span: span for span in trace.spans}
    inner: Counter[int] = Counter()
    for span in trace.spans:
        if span.kind not in DEVICES and span.parent is not None:
            inner[span.parent] += span.duration_ns
    spent: Counter[str] = Counter()
    for span in trace.spans:
        own_ns = span.duration_ns - (0 if span.kind in DEVICES else inner[span.span])
        if span.kind != SpanKind.SAMPLE and own_ns > 0:
            spent[_path(span, by_id)] += own_ns
    for path, own_ns in sorted(spent.items()):
        file.write(f"{path} {own_ns}\n".encode())


def _path(span: SpanRow, by_id: dict[int, SpanRow]) -> str:
    names: list[str] = []
    at: SpanRow | None = span
    while at is not None and len(names) < _MOST_DEEP:
        names.append(" ".join(at.name.replace(";", ",").split()) or "?")
        at = by_id.get(at.parent) if at.parent is not None else None
    return ";".join(["device" if span.kind in DEVICES else "host", *reversed(names)])
