"""Tiles: fewer rows than spans, for a window that is wider than it has pixels. Pure.

Spans are sorted by rows of the timeline (lane and depth) and start. Those shorter than a width
that follow one another in a row, and start in the same stretch of that width, become a tile: from
the start of the first to the end of the last. It counts its spans, is named after the longest, and
says which share of its time they cover. Longer spans stay as they are. Tiles of tiles are the
tiles of their spans, as long as the wider stretches are multiples of the narrower.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]

MOST_PIXELS = 4096
"""Stretches of a window that is tiled without a width asked for."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Spans, and tiles in the place of several.

    `source` is the row of the span that each is named after, `busy_ns` the sum of durations.
    """

    row: Rows
    start: Floats
    duration: Floats
    source: Rows
    longest: Floats
    count: Rows
    busy_ns: Floats

    @classmethod
    def of_spans(cls, row: Rows, start: Floats, duration: Floats) -> Self:
        """Return spans as they are, from `start` for `duration`.

        `row` is the number of each one's lane and depth.
        """
        source = np.arange(len(start), dtype=np.int32)
        ones = np.ones(len(start), np.int32)
        return cls(row, start, duration, source, duration, ones, duration)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.start)

    def between(self, first: Rows, last: Rows) -> Self:
        """Return the stretches of rows from each of `first` up to, not with, each of `last`."""
        if len(first) == 1 and first[0] == 0 and last[0] == len(self):
            return self
        chosen = np.concatenate(
            [np.arange(a, b) for a, b in zip(first, last, strict=True)] or [np.empty(0, np.int64)]
        )
        return type(self)(*(getattr(self, name)[chosen] for name in self.__slots__))

    @property
    def busy(self) -> Floats:
        """The share of each one's time that its spans cover."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.duration > 0, self.busy_ns / self.duration, 1.0)
        return np.minimum(share, 1.0)


def tiled(spans: Tiles, width_ns: float) -> Tiles:
    """Return `spans` with tiles of stretches `width_ns` wide."""
    if len(spans) < 2 or width_ns <= 0:
        return spans
    stretch = np.floor(spans.start / width_ns)
    is_short = spans.duration < width_ns
    is_first = np.ones(len(spans), bool)
    is_first[1:] = (stretch[1:] != stretch[:-1]) | (spans.row[1:] != spans.row[:-1])
    is_first[1:] |= ~(is_short[1:] & is_short[:-1])
    firsts = np.flatnonzero(is_first)
    if len(firsts) == len(spans):
        return spans
    longest = np.maximum.reduceat(spans.longest, firsts)
    ends = np.maximum.reduceat(spans.start + spans.duration, firsts)
    start = spans.start[firsts]
    return Tiles(
        row=spans.row[firsts],
        start=start,
        duration=ends - start,
        source=spans.source[_longest_of(spans.longest, longest, firsts)],
        longest=longest,
        count=np.add.reduceat(spans.count, firsts),
        busy_ns=np.add.reduceat(spans.busy_ns, firsts),
    )


def fitted(spans: Tiles, width_ns: float, most_rows: int) -> tuple[Tiles, float]:
    """Return `spans` in at most `most_rows` tiles, and the width that this took.

    The width is `width_ns` (0 leaves spans as they are) or, where that leaves too many, the first
    of its multiples by four that fits. One row of each lane and depth always remains.
    """
    if not len(spans):
        return spans, 0.0
    if width_ns == 0 and len(spans) <= most_rows:
        return spans, 0.0
    window_ns = float((spans.start + spans.duration).max() - spans.start.min()) + 1
    width_ns = width_ns or power_of_two(window_ns / MOST_PIXELS)
    tiles = tiled(spans, width_ns)
    while len(tiles) > most_rows and width_ns < 4 * window_ns:
        width_ns *= 4
        tiles = tiled(tiles, width_ns)
    return tiles, width_ns


def power_of_two(width_ns: float) -> float:
    """Return the largest power of two up to `width_ns`, at least 1: widths that are multiples."""
    return float(2 ** max(int(np.floor(np.log2(max(width_ns, 1)))), 0))


def _longest_of(duration: Floats, longest: Floats, firsts: Rows) -> Rows:
    """Return the first row of each tile whose duration is the tile's longest."""
    counts = np.diff(np.append(firsts, len(duration)))
    several = np.flatnonzero(counts > 1)
    source = firsts.copy()
    if several.size:
        tile = np.repeat(np.arange(len(firsts)), counts)
        hits = np.flatnonzero(duration == longest[tile])
        is_first = np.ones(len(hits), bool)
        is_first[1:] = tile[hits][1:] != tile[hits][:-1]
        source[tile[hits][is_first]] = hits[is_first]
    return source
