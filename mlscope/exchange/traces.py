"""A run's spans as they are exported, and how they lie in each other on a screen."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.analysis import SpanRow, TracedRun
from schemas.batch import SpanKind
from schemas.level import Level

DEVICES = frozenset({SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET})
HOST = -1
Lane = tuple[int, int, int]
"""What a span is drawn on: HOST or a device's number, thread or stream, and which of its rows."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of an evaluation and its spans, by start; without the last of them it `is_cut`."""

    evaluation: str
    run: TracedRun
    spans: Sequence[SpanRow]
    is_cut: bool = False


def level_name(span: SpanRow) -> str:
    """Return a span's level by name."""
    return Level(span.level).name.lower() if span.level in set(Level) else str(span.level)


def device_of(span: SpanRow) -> int:
    """Return the number of the device that a span is of, the first where none is told, or HOST."""
    if span.kind not in DEVICES:
        return HOST
    device = json.loads(span.attributes or "{}").get("device")
    return device if isinstance(device, int) and device >= 0 else 0


def clipped(spans: Sequence[SpanRow]) -> list[SpanRow]:
    """Return spans that end and begin within their parents on the same thread.

    Clocks truncate, so a child may stick out a little; what draws slices can't bear that. Device
    work is not clipped: it runs when it runs.
    """
    by_id = {span.span: span for span in spans}
    found: list[SpanRow] = []
    for span in sorted(spans, key=lambda each: each.level):
        around = by_id.get(-1 if span.parent is None else span.parent)
        if around is not None and span.kind not in DEVICES and around.thread == span.thread:
            last = around.start_ns + around.duration_ns
            start = min(max(span.start_ns, around.start_ns), last)
            end = min(span.start_ns + span.duration_ns, last)
            span = span._replace(start_ns=start, duration_ns=max(end - start, 0))
            by_id[span.span] = span
        found.append(span)
    return sorted(found, key=lambda each: (each.start_ns, -each.duration_ns, each.level, each.span))


def lanes(spans: Sequence[SpanRow]) -> Mapping[Lane, list[SpanRow]]:
    """Return spans by lane; in each they nest or follow one another, starts rising."""
    drawn: dict[Lane, list[SpanRow]] = defaultdict(list)
    stacks: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
    for span in clipped([each for each in spans if each.kind != SpanKind.SAMPLE]):
        place = (device_of(span), span.thread)
        number = _lane(stacks[place], span.start_ns, span.start_ns + span.duration_ns)
        drawn[(*place, number)].append(span)
    return drawn


def nested(spans: Sequence[SpanRow]) -> Iterator[tuple[bool, int, SpanRow]]:
    """Yield what happens in a lane in its order: whether a span opens, when, and which."""
    opened: list[SpanRow] = []
    for span in spans:
        while opened and _end(opened[-1]) <= span.start_ns and not _holds(opened[-1], span):
            yield False, _end(opened[-1]), opened.pop()
        yield True, span.start_ns, span
        opened.append(span)
    while opened:
        yield False, _end(opened[-1]), opened.pop()


def _lane(stacks: list[list[int]], start: int, end: int) -> int:
    """Return the first lane in which [start, end] nests, and take it there."""
    for number, ends in enumerate(stacks):
        while ends and ends[-1] <= start and not (ends[-1] == start == end):
            ends.pop()
        if not ends or ends[-1] >= end:
            ends.append(end)
            return number
    stacks.append([end])
    return len(stacks) - 1


def _end(span: SpanRow) -> int:
    return span.start_ns + span.duration_ns


def _holds(outer: SpanRow, inner: SpanRow) -> bool:
    return _end(outer) == inner.start_ns == _end(inner)
