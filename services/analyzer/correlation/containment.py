"""Which of many intervals is the innermost around another.

The boundary sweep of nested intervals, exact for overlapping ones too: candidates lie in the order
of their starts, each with a pointer to the one before it that ends later, and a search climbs from
the last that started in time. An interval is around another when it starts no later and ends no
earlier; of those around it, the one starting last is the innermost, of equal starts the shortest,
of equal intervals the one that comes last.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

_TIME_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Intervals:
    """Columns of one length: `key` (only equal ones may contain another), `start`, `end` in ns."""

    key: Ns
    start: Ns
    end: Ns

    def __len__(self) -> int:
        """Return how many intervals there are."""
        return len(self.key)

    def at(self, rows: Rows) -> "Intervals":
        """Return some of the rows."""
        return Intervals(self.key[rows], self.start[rows], self.end[rows])


def innermost(outer: Intervals, inner: Intervals) -> Rows:
    """Return for each of `inner` the row of `outer` innermost around it, -1 without one.

    About 100 ns an inner interval. A climb takes as many steps as intervals are nested.
    """
    if not len(outer) or not len(inner):
        return np.full(len(inner), -1, np.int64)
    around, within = _on_one_line(outer, inner)
    order = np.lexsort((-around.end, around.start))
    starts, ends, keys = around.start[order], around.end[order], around.key[order]
    # For each the last before it that ends later, or -1; pointers jump over pointers, so siblings
    # are passed in logarithmic time.
    latest = np.maximum.accumulate(ends)
    is_enclosed = np.zeros(len(ends), bool)
    is_enclosed[1:] = latest[:-1] > ends[1:]
    enclosing = np.where(is_enclosed, np.arange(-1, len(ends) - 1, dtype=np.int64), -1)
    rows = np.flatnonzero(is_enclosed)
    while (rows := rows[ends[enclosing[rows]] <= ends[rows]]).size:
        enclosing[rows] = enclosing[enclosing[rows]]
    place = np.searchsorted(starts, within.start, side="right") - 1
    place[(place >= 0) & (keys[place] != within.key)] = -1
    pending = np.flatnonzero(place >= 0)
    while pending.size:
        pending = pending[ends[place[pending]] < within.end[pending]]
        place[pending] = enclosing[place[pending]]
        pending = pending[place[pending] >= 0]
    return np.where(place >= 0, order[place], -1)


def _on_one_line(outer: Intervals, inner: Intervals) -> tuple[Intervals, Intervals]:
    """Return both with the times of each key moved behind those of the key before it."""
    keys, codes = np.unique(np.concatenate([outer.key, inner.key]), return_inverse=True)
    times = np.concatenate([outer.start, outer.end, inner.start, inner.end])
    low = int(times.min())
    span = int(times.max()) - low + 1
    if span * len(keys) >= _TIME_LIMIT:
        distinct, ranks = np.unique(times, return_inverse=True)
        times, low, span = ranks.astype(np.int64), 0, len(distinct)
    n, m = len(outer), len(inner)
    outer_start, outer_end, inner_start, inner_end = np.split(times - low, [n, 2 * n, 2 * n + m])
    outer_key, inner_key = np.split(codes.astype(np.int64), [n])
    outer_shift, inner_shift = outer_key * span, inner_key * span
    return (
        Intervals(outer_key, outer_shift + outer_start, outer_shift + outer_end),
        Intervals(inner_key, inner_shift + inner_start, inner_shift + inner_end),
    )


def shrunk(intervals: Intervals, tolerance_ns: int) -> Intervals:
    """Return intervals with `tolerance_ns` taken off each end, none beyond its middle."""
    middle = intervals.start + (intervals.end - intervals.start) // 2
    return Intervals(
        intervals.key,
        np.minimum(intervals.start + tolerance_ns, middle),
        np.maximum(intervals.end - tolerance_ns, middle),
    )
