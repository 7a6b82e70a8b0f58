"""A run's spans as they are exported, and how they are nested on a screen. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlscope.exchange.first_fit import FirstFit
from schemas.analysis import SpanRow, TracedRun
from schemas.batch import SpanKind
from schemas.level import Level

if TYPE_CHECKING:
    import polars as pl

DEVICES = frozenset({SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET})
HOST = -1
Lane = tuple[int, int, int]
"""Where a span is drawn: HOST or a device's number, thread or stream, and which of its rows."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of an evaluation and its spans by start; `is_cut` where the last ones are missing."""

    evaluation: str
    run: TracedRun
    spans: Sequence[SpanRow]
    is_cut: bool = False

    def polars(self) -> "pl.DataFrame":
        """Return the spans as a polars frame, a column for each field of `SpanRow`.

        Needs polars (`pip install mlscope[services]`).
        """
        import polars as pl

        kinds = {"name": pl.String, "method": pl.String, "attributes": pl.String}
        schema = {name: kinds.get(name, pl.Int64) for name in SpanRow._fields}
        return pl.DataFrame(self.spans, schema=schema, orient="row")


def level_name(span: SpanRow) -> str:
    """Return a span's level by name."""
    return Level(span.level).name.lower() if span.level in set(Level) else str(span.level)


def device_of(span: SpanRow) -> int:
    """Return the number of a span's device (0 where it is not recorded), or HOST."""
    if span.kind not in DEVICES:
        return HOST
    device = json.loads(span.attributes or "{}").get("device")
    return device if isinstance(device, int) and device >= 0 else 0


def clipped(spans: Sequence[SpanRow]) -> list[SpanRow]:
    """Return spans clipped to their parents on the same thread, by start.

    Clocks truncate, so a child may reach a little beyond its parent, which viewers of slices do not
    accept. Device work is not clipped, because it runs independently of its parent.
    """
    by_id = {span.span: span for span in spans}
    clipped_spans: list[SpanRow] = []
    for span in sorted(spans, key=lambda span: span.level):
        parent = by_id.get(-1 if span.parent is None else span.parent)
        if parent is not None and span.kind not in DEVICES and parent.thread == span.thread:
            parent_end = parent.start_ns + parent.duration_ns
            start = min(max(span.start_ns, parent.start_ns), parent_end)
            end = min(span.start_ns + span.duration_ns, parent_end)
            span = span._replace(start_ns=start, duration_ns=max(end - start, 0))
            by_id[span.span] = span
        clipped_spans.append(span)
    return sorted(
        clipped_spans, key=lambda span: (span.start_ns, -span.duration_ns, span.level, span.span)
    )


def lanes(spans: Sequence[SpanRow]) -> Mapping[Lane, list[SpanRow]]:
    """Return spans by lane and start; in each lane they nest or follow one another.

    A span is in the first lane of its thread or stream in which it nests; `spans` may be in any
    order, and samples among them are in no lane.
    """
    drawn: dict[Lane, list[SpanRow]] = defaultdict(list)
    lanes_at: dict[tuple[int, int], FirstFit] = defaultdict(FirstFit)
    for span in clipped([span for span in spans if span.kind != SpanKind.SAMPLE]):
        place = (device_of(span), span.thread)
        lane = lanes_at[place].place(span.start_ns, _end(span))
        drawn[*place, lane].append(span)
    return drawn


def nested(spans: Sequence[SpanRow]) -> Iterator[tuple[bool, int, SpanRow]]:
    """Yield the events of a lane in order: whether a span begins (or ends), the ns, the span."""
    opened: list[SpanRow] = []
    for span in spans:
        while opened and _end(opened[-1]) <= span.start_ns:
            if _end(opened[-1]) == span.start_ns == _end(span):
                break  # a span without duration lies in the one that ends with it
            yield False, _end(opened[-1]), opened.pop()
        yield True, span.start_ns, span
        opened.append(span)
    while opened:
        yield False, _end(opened[-1]), opened.pop()


def _end(span: SpanRow) -> int:
    return span.start_ns + span.duration_ns
