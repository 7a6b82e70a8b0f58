"""How deep spans of a lane are nested: the rows they are drawn in. Pure.

No two spans of a lane and depth overlap, and a span lies deeper than each span of its lane that
holds it. A span without duration counts as one nanosecond long. Where more than `MOST_DEPTH` spans
are open at once, the rest share the deepest row and may overlap there.
"""

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]
Depths = npt.NDArray[np.uint8]

MOST_DEPTH = 255


def depths_of(start: Ns, end: Ns) -> Depths:
    """Return the depth of each span of one lane, from their `start` and `end`.

    They must be sorted by start, and at equal starts the longest first.
    """
    ends = np.maximum(end, start + 1)
    # Where spans nest, the depth is the number of spans that are open at the start.
    opened = np.arange(len(start)) - np.searchsorted(np.sort(ends), start, side="right")
    depths: Depths = np.minimum(opened, MOST_DEPTH).astype(np.uint8)
    crossing = _crossing(depths, ends)
    if not crossing.size:
        return depths
    # Spans that overlap without nesting: the stretches that hold some are laid out one by one.
    is_first = np.ones(len(start), bool)
    is_first[1:] = np.maximum.accumulate(ends)[:-1] <= start[1:]
    stretch = np.cumsum(is_first) - 1
    bounds = np.append(np.flatnonzero(is_first), len(start))
    for number in np.unique(stretch[crossing]).tolist():
        rows = slice(int(bounds[number]), int(bounds[number + 1]))
        # The first free depth of each span that is below every span around it.
        last_ends: list[int] = []
        spans = zip(start[rows].tolist(), ends[rows].tolist(), strict=True)
        depths[rows] = [place_in(last_ends, begin, finish) for begin, finish in spans]
    return depths


def _crossing(depths: Depths, ends: Ns) -> Ns:
    """Return the spans that outlast a span in which they began."""
    above, crossing = np.flatnonzero(depths == 0), [np.empty(0, np.int64)]
    for depth in range(1, int(depths.max(initial=0)) + 1):
        rows = np.flatnonzero(depths == depth)
        parents = above[np.searchsorted(above, rows) - 1]
        crossing.append(rows[ends[parents] < ends[rows]])
        above = rows
    return np.concatenate(crossing)


def place_in(last_ends: list[int], start: int, end: int) -> int:
    """Return the depth of one more span, from `start` to `end`, of a lane.

    `last_ends` are the ends of the last spans by depth; the span's own is noted there.
    """
    depth = None
    for row, last_end in enumerate(last_ends):
        if last_end <= start:
            depth = row if depth is None else depth
        elif last_end >= end:
            depth = None  # a span that holds this one: only deeper rows will do
    if depth is None:
        depth = len(last_ends)
    if depth > MOST_DEPTH:
        return MOST_DEPTH
    if depth == len(last_ends):
        last_ends.append(end)
    last_ends[depth] = end
    return depth
