"""Makes a wide table fit a terminal without leaving anything out.

Pure. Constant columns move to a line above the table, bounds of an interval into the cell of their
estimate, and further columns into tables below.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from mlscope.quantities import interval_text, shown
from mlscope.texts.layout import folded, least_widths, wrapped
from mlscope.texts.shortening import width

_GAP = 2
_MISSING = ("", shown(None))
_RUN = "run"
_MOST_KEYS = 3
"""Maximum number of key columns that are repeated in each part of a table."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A table of texts: headings, rows, and which columns are aligned to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    to_right: tuple[bool, ...]

    def select(self, columns: Sequence[int]) -> "Cells":
        """Return the columns at these positions only."""
        return Cells(
            tuple(self.heads[column] for column in columns),
            tuple(tuple(row[column] for column in columns) for row in self.rows),
            tuple(self.to_right[column] for column in columns),
        )

    def without(self, columns: Collection[int]) -> "Cells":
        """Return all columns but those at these positions."""
        return self.select([n for n in range(len(self.heads)) if n not in columns])


def is_wide(cells: Cells, fit: int) -> bool:
    """Tell whether a table is wider than `fit` terminal columns; never for 0."""
    if not fit:
        return False
    columns = zip(cells.heads, *cells.rows, strict=True)
    widths = [max(width(text) for text in column) for column in columns]
    return sum(widths) + _GAP * (len(widths) - 1) > fit


def with_intervals(cells: Cells) -> Cells:
    """Return a table with intervals in the cells of their estimates: `74 ms (68.2 ms … 81.1 ms)`.

    An estimate NAME has its interval in the columns NAME_low and NAME_high. An end that is not
    known reads `unknown`; an estimate without both ends stands alone.
    """
    positions = {name: column for column, name in enumerate(cells.heads)}
    bounds = {
        positions[name]: (positions[f"{name}_low"], positions[f"{name}_high"])
        for name in cells.heads
        if {f"{name}_low", f"{name}_high"} <= positions.keys()
    }

    def with_interval(row: Sequence[str], column: int) -> str:
        if column not in bounds:
            return row[column]
        low_column, high_column = bounds[column]
        low, high = ("" if row[end] in _MISSING else row[end] for end in (low_column, high_column))
        if not low and not high:
            return row[column]
        if low.partition(" ")[2] == high.partition(" ")[2]:
            low = low.partition(" ")[0]
        return f"{row[column]} ({interval_text(low, high)})"

    columns = range(len(cells.heads))
    rows = tuple(tuple(with_interval(row, column) for column in columns) for row in cells.rows)
    bound_columns = set(chain.from_iterable(bounds.values()))
    return Cells(cells.heads, rows, cells.to_right).without(bound_columns)


def split_constant_columns(cells: Cells, fit: int) -> tuple[list[str], Cells]:
    """Return lines with the values that are equal in all rows, and the columns that differ.

    The lines are at most `fit` terminal columns wide.
    """
    constant = _constant_columns(cells)
    empty = [cells.heads[column] for column in constant if cells.rows[0][column] in _MISSING]
    named = _named_values(cells, constant)
    lines = wrapped(f"in every row: {', '.join(named)}", fit) if named else []
    lines += wrapped(f"empty in every row: {', '.join(empty)}", fit) if empty else []
    return lines, cells.without(constant)


def group_by_run(cells: Cells, fit: int) -> tuple[dict[int, list[str]], Cells]:
    """Return heading lines for the rows of each run, and the columns that differ within a run.

    The lines, at most `fit` terminal columns wide, hold the values that are equal within a run;
    their key is the number of the run's first row. There are none when most runs have one or two
    rows, or when a run's rows are not adjacent.
    """
    if _RUN not in cells.heads:
        return {}, cells
    run_column = cells.heads.index(_RUN)
    parts = [
        Cells(cells.heads, tuple(rows), cells.to_right)
        for _, rows in groupby(cells.rows, key=lambda row: row[run_column])
    ]
    runs = {row[run_column] for row in cells.rows}
    if len(parts) > len(runs) or len(parts) * 2 >= len(cells.rows):
        return {}, cells
    constant = sorted(set.intersection(*(set(_constant_columns(part)) for part in parts)))
    headings: dict[int, list[str]] = {}
    start = 0
    for part in parts:
        headings[start] = wrapped(f"{', '.join(_named_values(part, constant))}:", fit)
        start += len(part.rows)
    return headings, cells.without(constant)


def split_to_fit(cells: Cells, starts: Mapping[int, object], fit: int) -> list[Cells]:
    """Return the table `cells` as parts that fit, to be printed one below the other; mostly one.

    `starts`: numbers of the rows that begin a group; `fit`: terminal columns. Each part begins with
    the columns that distinguish the rows of a group.
    """
    if not is_wide(cells, fit):
        return [cells]
    least = least_widths(cells.heads, cells.rows, cells.to_right, fit)
    if sum(least) + len(least) - 1 <= fit:
        return [cells]
    keys = _key_columns(cells, starts)
    if sum(least[column] for column in keys) > fit * 2 // 3:
        keys = keys[-1:]
    parts: list[list[int]] = []
    room = -1
    for column in range(len(least)):
        if column in keys:
            continue
        if room < least[column] + 1:
            parts.append(list(keys))
            room = fit - sum(least[key] + 1 for key in keys) + 1
        parts[-1].append(column)
        room -= least[column] + 1
    return [cells.select(sorted(part)) for part in parts] or [cells]


def _key_columns(cells: Cells, starts: Mapping[int, object]) -> list[int]:
    """Return the first columns, a text among them, in which no two rows of a group are equal.

    If those are too many: the text column with the most distinct values, else the first column.
    """
    groups, group = [], 0
    for number in range(len(cells.rows)):
        group += number in starts
        groups.append(group)
    for size in range(1, min(_MOST_KEYS, len(cells.heads)) + 1):
        distinct = {(group, row[:size]) for group, row in zip(groups, cells.rows, strict=True)}
        if len(distinct) == len(cells.rows) and not all(cells.to_right[:size]):
            return list(range(size))
    texts = [column for column, right in enumerate(cells.to_right) if not right]
    return [max(texts, key=lambda column: len({row[column] for row in cells.rows}), default=0)]


def transposed(cells: Cells, fit: int) -> list[str]:
    """Return a table with a line for each column and its rows side by side; long texts wrap."""
    rows = list(zip(cells.heads, *cells.rows, strict=True))
    heads = [""] * (len(cells.rows) + 1)
    return folded(heads, rows, [False] * len(heads), fit).body


def _constant_columns(cells: Cells) -> list[int]:
    """Return the columns whose values are equal in all rows, of which there is at least one."""
    return [
        column
        for column, first in enumerate(cells.rows[0])
        if all(row[column] == first for row in cells.rows)
    ]


def _named_values(cells: Cells, columns: Sequence[int]) -> list[str]:
    """Return `heading value` for the columns of the first row that are not empty."""
    first = cells.rows[0]
    return [
        f"{cells.heads[column]} {first[column]}"
        for column in columns
        if first[column] not in _MISSING
    ]
