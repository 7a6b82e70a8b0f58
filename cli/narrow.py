"""How a wide table is made to fit a terminal: what is alike said once, bounds in their cell.

Pure; nothing is left out: cells that are empty in every row are named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from mlscope.client.quantities import shown
from mlscope.layout import folded, least_widths, wrapped
from mlscope.shortening import width

_GAP = 2
_NOTHING = ("", shown(None))
_BOUNDS = ("_low", "_high")
_RUN = "run"
_MOST_KEYS = 3
"""Columns that are said again in each part of a table, at most."""


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


def grouped(cells: Cells, fit: int) -> tuple[dict[int, list[str]], Cells]:
    """Return what the rows of each run have alike, to be said before its first, and the rest.

    Nothing where runs have a row or two alone, or rows that lie apart.
    """
    if _RUN not in cells.heads:
        return {}, cells
    place = cells.heads.index(_RUN)
    groups = [list(rows) for _, rows in groupby(cells.rows, key=lambda row: row[place])]
    runs = {row[place] for row in cells.rows}
    if len(groups) > len(runs) or len(groups) * 2 >= len(cells.rows):
        return {}, cells
    parts = [Cells(cells.heads, tuple(rows), cells.to_right) for rows in groups]
    places = range(len(cells.heads))
    alike = [p for p in places if all(_is_alike(part, p) for part in parts)]
    said: dict[int, list[str]] = {}
    start = 0
    for part in parts:
        told = [f"{part.heads[p]} {part.rows[0][p]}" for p in alike if _first(part, p)]
        said[start] = wrapped(f"{', '.join(told)}:", fit)
        start += len(part.rows)
    return said, cells.kept([p for p in places if p not in alike])


def sided(cells: Cells, starts: Mapping[int, object], fit: int) -> list[Cells]:
    """Return a table as parts that fit, to be printed one below the other; mostly one.

    Each has the columns that tell rows apart, within groups whose first rows are `starts`.
    """
    if not is_wide(cells, fit):
        return [cells]
    least = least_widths(cells.heads, cells.rows, cells.to_right, fit)
    if sum(least) + len(least) - 1 <= fit:
        return [cells]
    keys = _keys(cells, starts)
    if sum(least[place] for place in keys) > fit * 2 // 3:
        keys = keys[-1:]
    parts: list[list[int]] = []
    left = -1
    for place in (each for each in range(len(least)) if each not in keys):
        if left < least[place] + 1:
            parts.append(list(keys))
            left = fit - sum(least[each] + 1 for each in keys) + 1
        parts[-1].append(place)
        left -= least[place] + 1
    return [cells.kept(sorted(part)) for part in parts] or [cells]


def _keys(cells: Cells, starts: Mapping[int, object]) -> list[int]:
    """Return the first columns, a text among them, by which no two rows of a group are alike.

    Where these would be many: the one text that tells most rows apart, else the first column.
    """
    groups, group = [], 0
    for number in range(len(cells.rows)):
        group += number in starts
        groups.append(group)
    for size in range(1, min(_MOST_KEYS, len(cells.heads)) + 1):
        told = {(group, row[:size]) for group, row in zip(groups, cells.rows, strict=True)}
        if len(told) == len(cells.rows) and not all(cells.to_right[:size]):
            return list(range(size))
    texts = [place for place, right in enumerate(cells.to_right) if not right]
    return [max(texts, key=lambda p: len({row[p] for row in cells.rows}), default=0)]


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
