"""Spans as arrays with one value for each span: what the modules of correlation exchange."""

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
        is_match = np.zeros(len(self), np.bool_)
        for kind in kinds:
            is_match |= self.kind == int(kind)
        return is_match


def complete_spans(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the spans that have a start and an end.

    A span that began before the attempt's clock, or without a recorded end (a duration below 0),
    was cut at the edge of the recording; its place in the tree is unknown.
    """
    return spans.filter((pl.col("start_ns") >= 0) & (pl.col("duration_ns") >= 0))


def columns_of(spans: pl.DataFrame) -> Spans:
    """Return the columns of a frame; spans without `kind` and `correlation` belong to the host."""
    columns = {name: _column(spans, name) for name in _COLUMNS}
    return Spans(
        span=columns["span"],
        parent=columns["parent"],
        level=columns["level"],
        start=columns["start_ns"],
        end=columns["start_ns"] + columns["duration_ns"],
        thread=columns["thread"],
        query=columns["query"],
        kind=_column(spans, "kind", int(SpanKind.HOST)),
        correlation=_column(spans, "correlation"),
    )


def rows_of(ids: Ns, sought: Ns) -> Rows:
    """Return the row in `ids` of each of the `sought` ids, -1 where no row has it."""
    if not len(ids):
        return np.full(len(sought), ABSENT, np.int64)
    low, high = int(ids.min()), int(ids.max())
    is_in_range = (sought >= low) & (sought <= high) & (sought != ABSENT)
    if high - low < 8 * len(ids) + 1024:
        table = np.full(high - low + 1, ABSENT, np.int64)
        table[ids - low] = np.arange(len(ids))
        rows = table[np.where(is_in_range, sought - low, 0)]
        return np.where(is_in_range, rows, ABSENT)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], sought), len(ids) - 1)
    return np.where(is_in_range & (ids[order][place] == sought), order[place], ABSENT)


def _column(spans: pl.DataFrame, name: str, absent: int = ABSENT) -> Ns:
    if name not in spans.columns:
        return np.full(spans.height, absent, np.int64)
    return spans[name].cast(pl.Int64).fill_null(absent).to_numpy()
