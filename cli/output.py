"""What commands print on stdout: rows as a table, JSON or CSV. Data only."""

import csv
import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from cli.narrow import Cells, bounded, grouped, is_wide, parted, sided, turned
from mlscope.client.quantities import heads_of, shown, unit_of
from mlscope.layout import folded, laid_out
from schemas.analysis import Table

MOST_TURNED = 4
"""Rows that stand side by side, a line a column, where a table is too wide for a terminal."""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Rows:
    """What is printed; `units` are for people, JSON and CSV keep plain numbers.

    A table that `folds` goes on in further lines where a text is long.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    units: tuple[str, ...] = ()
    title: str = ""
    note: str = ""
    folds: bool = False

    @classmethod
    def of_table(cls, table: Table) -> "Rows":
        """Return an analysis table."""
        return cls(
            columns=tuple(column.name for column in table.columns),
            rows=table.rows,
            units=tuple(unit_of(column) for column in table.columns),
            title=table.title or table.name,
            note=table.verdict,
        )

    def maps(self) -> list[dict[str, Any]]:
        """Return rows as JSON can say them: what is not finite is null."""
        return [
            {name: _finite(value) for name, value in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]

    def kept(self, columns: Sequence[str]) -> "Rows":
        """Return these columns only, those that are there; all when none of them is."""
        places = [self.columns.index(name) for name in columns if name in self.columns]
        places = places or list(range(len(self.columns)))
        return replace(
            self,
            columns=tuple(self.columns[place] for place in places),
            rows=tuple(tuple(row[place] for place in places) for row in self.rows),
            units=tuple(self.units[place] for place in places) if self.units else (),
        )


def write_rows(rows: Rows, form: str, stream: TextIO | None = None) -> None:
    """Print rows as `table`, `json` or `csv`."""
    out = stream or sys.stdout
    if form == "json":
        write_json(rows.maps(), out)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(rows.rows)
    else:
        lines = table_lines(rows, is_tty=out.isatty(), fit=width_of(out))
        out.writelines(f"{line}\n" for line in lines)


def write_json(value: Any, stream: TextIO | None = None) -> None:
    """Print a value as JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    (stream or sys.stdout).write(f"{text}\n")


def table_lines(rows: Rows, *, is_tty: bool = False, fit: int = 0) -> list[str]:
    """Return an aligned table, numbers to the right; headings stand out on a terminal.

    It is at most `fit` terminal columns wide where it can be so; 0 is any width. A terminal is
    spared the headings of a table without rows.
    """
    if fit and rows.title and not rows.rows:
        return ["(no rows)"]
    units = rows.units or ("",) * len(rows.columns)
    cells = [
        [shown(value, unit) for value, unit in zip(row, units, strict=True)] for row in rows.rows
    ]
    to_right = [_is_numeric(column) for column in zip(*rows.rows, strict=True)]
    heads = heads_of(list(zip(rows.columns, units, strict=True)))
    table = Cells(tuple(heads), tuple(map(tuple, cells)), tuple(to_right or [False] * len(heads)))
    above: list[str] = []
    groups: dict[int, list[str]] = {}
    if is_wide(table, fit) and rows.title:
        table = bounded(table)
        if len(rows.rows) == 1:
            return turned(table, fit)
        above, table = parted(table, fit)
        if is_wide(table, fit) and len(rows.rows) <= MOST_TURNED:
            return above + turned(table, fit)
        if is_wide(table, fit):
            groups, table = grouped(table, fit)
    if rows.folds:
        layouts = [folded(table.heads, table.rows, table.to_right, fit)]
    else:
        parts = sided(table, groups, fit)
        layouts = [laid_out(each.heads, each.rows, each.to_right, fit) for each in parts]
    for place, layout in enumerate(layouts):
        above += [""] if place else []
        above += [f"{_BOLD}{line}{_PLAIN}" for line in layout.head] if is_tty else layout.head
        for number, line in enumerate(layout.body):
            above += [*groups.get(number, ()), line]
    return above


def width_of(stream: TextIO) -> int:
    """Return how many columns a terminal has, 0 for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


def _is_numeric(values: Iterable[Any]) -> bool:
    return all(isinstance(v, int | float) or v is None for v in values)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows_of(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Rows:
    """Return records as rows of the named columns."""
    return Rows(
        columns=tuple(columns),
        rows=tuple(tuple(record.get(name) for name in columns) for record in records),
    )
