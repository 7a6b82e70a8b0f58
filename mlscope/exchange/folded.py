"""Folded stacks for a flame graph: one line per path, with the ns spent in it but not below it.

Host and device time have separate roots: a kernel runs in parallel to the call that launched it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import IO

from mlscope.exchange.traces import DEVICES, Trace
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

_MAX_DEPTH = 100


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run, paths in order."""
    by_id = {span.span: span for span in trace.spans}
    children_ns: Counter[int] = Counter()
    for span in trace.spans:
        if span.kind not in DEVICES and span.parent is not None:
            children_ns[span.parent] += span.duration_ns
    own_time: Counter[str] = Counter()
    for span in trace.spans:
        own_ns = span.duration_ns - (0 if span.kind in DEVICES else children_ns[span.span])
        if span.kind != SpanKind.SAMPLE and own_ns > 0:
            own_time[path_of(span, by_id)] += own_ns
    for path, own_ns in sorted(own_time.items()):
        file.write(f"{path} {own_ns}\n".encode())


def path_of(span: SpanRow, by_id: Mapping[int, SpanRow]) -> str:
    """Return `host` or `device`, and the names of a span's ancestors and its own, with semicolons.

    At most the nearest 100 names; `by_id` has the spans of the run by their ids.
    """
    names: list[str] = []
    ancestor: SpanRow | None = span
    while ancestor is not None and len(names) < _MAX_DEPTH:
        names.append(" ".join(ancestor.name.replace(";", ",").split()) or "?")
        ancestor = by_id.get(ancestor.parent) if ancestor.parent is not None else None
    root = "device" if span.kind in DEVICES else "host"
    return ";".join([root, *reversed(names)])
