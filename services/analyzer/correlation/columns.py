"""Spans as arrays, a value a span: what the parts of correlation hand to each other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.batch import SpanKind

Ns = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

ABSENT = -1
HOST_KINDS = (SpanKind.HOST, SpanKind.LAUNCH, SpanKind.MARKER)
DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)

_COLUMNS = ("span", "parent", "level", "start_ns", "duration_ns", "thread", "query")


@dataclass(frozen=True, slots=True)
class Spans:
    """Columns of one attempt's spans, int64; absent is -1. Times are ns."""

    span: Ns
    parent: Ns
    level: Ns
    start: Ns
    end: Ns
    thread: Ns
    query: Ns
    kind: Ns
    correlation: Ns

    def __len__(self) -> int:
        """Return how many spans there are."""
        return len(self.span)

    def is_kind(self, *kinds: SpanKind) -> npt.NDArray[np.bool_]:
        """Return which spans are of these kinds."""
        found = np.zeros(len(self), np.bool_)
        for kind in kinds:
            found |= self.kind == int(kind)
        return found


def whole(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the spans that have a start and an end.

    One that began before the attempt's clock, or whose end was never seen (a duration below 0),
    was cut at the edge of what was recorded: where it belongs can't be told.
    """
    return spans.filter((pl.col("start_ns") >= 0) & (pl.col("duration_ns") >= 0))


def columns_of(spans: pl.DataFrame) -> Spans:
    """Return the columns of a frame; spans without `kind` and `correlation` are of the host."""
    found = {name: _column(spans, name) for name in _COLUMNS}
    return Spans(
        span=found["span"],
        parent=found["parent"],
        level=found["level"],
        start=found["start_ns"],
        end=found["start_ns"] + found["duration_ns"],
        thread=found["thread"],
        query=found["query"],
        kind=_column(spans, "kind", int(SpanKind.HOST)),
        correlation=_column(spans, "correlation"),
    )


def rows_of(ids: Ns, wanted: Ns) -> Rows:
    """Return at which row each wanted id is, -1 where no row has it."""
    if not len(ids):
        return np.full(len(wanted), ABSENT, np.int64)
    low, high = int(ids.min()), int(ids.max())
    inside = (wanted >= low) & (wanted <= high) & (wanted != ABSENT)
    if high - low < 8 * len(ids) + 1024:
        table = np.full(high - low + 1, ABSENT, np.int64)
        table[ids - low] = np.arange(len(ids))
        found = table[np.where(inside, wanted - low, 0)]
        return np.where(inside, found, ABSENT)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(inside & (ids[order][place] == wanted), order[place], ABSENT)


def _column(spans: pl.DataFrame, name: str, absent: int = ABSENT) -> Ns:
    if name not in spans.columns:
        return np.full(spans.height, absent, np.int64)
    return spans[name].cast(pl.Int64).fill_null(absent).to_numpy()
