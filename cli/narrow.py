"""How a wide table is made to fit a terminal: what is alike said once, bounds in their cell.

Pure; nothing is left out: cells that are empty in every row are named.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlscope.client.quantities import shown
from mlscope.layout import folded, width, wrapped

_GAP = 2
_NOTHING = ("", shown(None))
_BOUNDS = ("_low", "_high")


@dataclass(frozen=True, slots=True)
class Cells:
    """A table as texts: headings, rows, and which columns stand to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    to_right: tuple[bool, ...]

    def kept(self, places: Sequence[int]) -> "Cells":
        """Return these columns only."""
        return Cells(
            tuple(self.heads[place] for place in places),
            tuple(tuple(row[place] for place in places) for row in self.rows),
            tuple(self.to_right[place] for place in places),
        )


def is_wide(cells: Cells, fit: int) -> bool:
    """Say whether a table is wider than `fit` terminal columns as it is; never for 0."""
    if not fit:
        return False
    columns = zip(cells.heads, *cells.rows, strict=True)
    sizes = [max(width(text) for text in column) for column in columns]
    return sum(sizes) + _GAP * (len(sizes) - 1) > fit


def bounded(cells: Cells) -> Cells:
    """Return a table whose estimates hold their intervals: `74 ms [68.2 ms, 81.1 ms]`."""
    own = {name: place for place, name in enumerate(cells.heads)}
    pairs = {
        own[name]: (own[name + _BOUNDS[0]], own[name + _BOUNDS[1]])
        for name in cells.heads
        if all(name + end in own for end in _BOUNDS)
    }
    rows = tuple(
        tuple(_with_bounds(row, place, pairs) for place in range(len(row))) for row in cells.rows
    )
    inside = {place for pair in pairs.values() for place in pair}
    outside = [place for place in range(len(cells.heads)) if place not in inside]
    return Cells(cells.heads, rows, cells.to_right).kept(outside)


def _with_bounds(row: Sequence[str], place: int, pairs: dict[int, tuple[int, int]]) -> str:
    if place not in pairs:
        return row[place]
    low, high = (row[each] for each in pairs[place])
    if low in _NOTHING or high in _NOTHING:
        return row[place]
    if low.partition(" ")[2] == high.partition(" ")[2]:
        low = low.partition(" ")[0]
    return f"{row[place]} [{low}, {high}]"


def parted(cells: Cells, fit: int) -> tuple[list[str], Cells]:
    """Return lines that say what all rows have alike, and the columns in which they differ."""
    alike = [place for place in range(len(cells.heads)) if _is_alike(cells, place)]
    told = [f"{cells.heads[p]} {cells.rows[0][p]}" for p in alike if _first(cells, p)]
    empty = [cells.heads[p] for p in alike if not _first(cells, p)]
    lines = wrapped(f"in every row: {', '.join(told)}", fit) if told else []
    lines += wrapped(f"empty in every row: {', '.join(empty)}", fit) if empty else []
    return lines, cells.kept([place for place in range(len(cells.heads)) if place not in alike])


def turned(cells: Cells, fit: int) -> list[str]:
    """Return a table with a line a column, its rows side by side; long texts go on below."""
    rows = list(zip(cells.heads, *cells.rows, strict=True))
    heads = [""] * (len(cells.rows) + 1)
    return folded(heads, rows, [False] * len(heads), fit).body


def _is_alike(cells: Cells, place: int) -> bool:
    return all(row[place] == cells.rows[0][place] for row in cells.rows)


def _first(cells: Cells, place: int) -> str:
    text = cells.rows[0][place]
    return "" if text in _NOTHING else text
