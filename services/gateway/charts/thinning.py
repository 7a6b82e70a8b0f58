"""Fewer bars than a picture has pixels: the largest of each stretch of an axis. Pure."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from services.gateway.charts.axes import Row, Spec, encodings_of

MOST_BARS = 1000
"""Bars along one axis: a picture is about as many pixels wide."""


def thinned(
    rows: Sequence[Row], plot: Spec, facet: str, most_bars: int, chosen: tuple[str, int | None]
) -> tuple[list[Row], int]:
    """Return the rows of at most `most_bars` places along each axis of a `plot`, and a stretch.

    The stretch is the number of neighbouring places on the longest axis of which only one is drawn,
    the one with the largest bar; it is 1 where all are. Each value of the column `facet` has an
    axis of its own; '' is no column. The rows with the `chosen` value of a column stay. Charts
    without places side by side are not thinned.
    """
    encodings = [encoding for encoding in encodings_of(plot) if "x" in encoding and "y" in encoding]
    if not encodings or encodings[0]["x"].get("type") != "ordinal":
        return list(rows), 1
    along, upwards = encodings[0]["x"].get("field", ""), encodings[0]["y"].get("field", "")
    sizes: defaultdict[Any, defaultdict[Any, float]] = defaultdict(lambda: defaultdict(float))
    drawn: set[tuple[Hashable, Hashable]] = set()
    for row in rows:
        size = row.get(upwards)
        place = row.get(along)
        sizes[row.get(facet)][place] += abs(size) if isinstance(size, int | float) else 0.0
        if chosen[1] is not None and row.get(chosen[0]) == chosen[1]:
            drawn.add((row.get(facet), place))
    longest = 1
    for name, bars in sizes.items():
        places, stretch = list(bars), -(-len(bars) // most_bars)
        longest = max(longest, stretch)
        for first in range(0, len(places), stretch):
            drawn.add((name, max(places[first : first + stretch], key=bars.__getitem__)))
    return [row for row in rows if (row.get(facet), row.get(along)) in drawn], longest
