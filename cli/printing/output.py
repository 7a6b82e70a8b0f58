"""Rows on stdout: as a table, JSON or CSV."""

import csv
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from cli.printing.wide_tables import (
    Cells,
    group_by_run,
    is_wide,
    split_constant_columns,
    split_to_fit,
    transposed,
    with_intervals,
)
from mlscope.quantities import heads_of, shown, unit_of
from mlscope.texts.layout import Layout, folded, laid_out
from mlscope.texts.printable import csv_cell, printable
from schemas.analysis import Table

MOST_TRANSPOSED = 4
"""Maximum number of rows that are printed side by side when a table is too wide."""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to print; `units` are for tables, JSON and CSV have plain numbers.

    With `folds`, long texts of a table continue on further lines.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    units: tuple[str, ...] = ()
    title: str = ""
    note: str = ""
    folds: bool = False

    @classmethod
    def of_table(cls, table: Table) -> "Rows":
        """Return the rows of an analysis table."""
        return cls(
            columns=tuple(column.name for column in table.columns),
            rows=table.rows,
            units=tuple(unit_of(column) for column in table.columns),
            title=table.title or table.name,
            note=table.verdict,
        )

    def maps(self) -> list[dict[str, Any]]:
        """Return a map for each row, with null for numbers that JSON lacks (NaN, infinity)."""

        def finite(value: Any) -> Any:
            return None if isinstance(value, float) and not math.isfinite(value) else value

        return [
            {name: finite(value) for name, value in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]

    def select(self, columns: Sequence[str]) -> "Rows":
        """Return only these columns, as far as they exist; all when none of them does."""
        indices = [self.columns.index(name) for name in columns if name in self.columns]
        indices = indices or list(range(len(self.columns)))
        return replace(
            self,
            columns=tuple(self.columns[index] for index in indices),
            rows=tuple(tuple(row[index] for index in indices) for row in self.rows),
            units=tuple(self.units[index] for index in indices) if self.units else (),
        )

    def where(self, column: str, value: Any) -> "Rows":
        """Return only the rows with a value in a column."""
        place = self.columns.index(column)
        return replace(self, rows=tuple(row for row in self.rows if row[place] == value))

    def cells(self) -> Cells:
        """Return the rows as texts with their units; columns of numbers are to the right."""
        units = self.units or ("",) * len(self.columns)
        texts = tuple(
            tuple(printable(shown(value, unit)) for value, unit in zip(row, units, strict=True))
            for row in self.rows
        )
        to_right = tuple(
            all(isinstance(value, int | float | None) for value in column)
            for column in zip(*self.rows, strict=True)
        )
        heads = tuple(heads_of(list(zip(self.columns, units, strict=True))))
        return Cells(heads, texts, to_right or (False,) * len(heads))


def write_rows(rows: Rows, form: str, stream: TextIO | None = None) -> None:
    """Print rows on `stream` (default: stdout); `form` is `table`, `json` or `csv`."""
    out = stream or sys.stdout
    if form == "json":
        write_json(rows.maps(), out)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(map(csv_cell, row) for row in rows.rows)
    else:
        lines = table_lines(rows, is_bold=takes_bold(out), fit=width_of(out))
        out.writelines(f"{line}\n" for line in lines)


def write_json(value: Any, stream: TextIO | None = None) -> None:
    """Print a value as JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    (stream or sys.stdout).write(f"{text}\n")


def table_lines(rows: Rows, *, is_bold: bool = False, fit: int = 0) -> list[str]:
    """Return an aligned table with numbers to the right.

    `is_bold`: print headings in bold; `fit`: terminal columns that the table should fit into, 0
    for any width. With `fit`, a table without rows has no headings.
    """
    if fit and rows.title and not rows.rows:
        return ["(no rows)"]
    table = rows.cells()
    lines: list[str] = []
    run_headings: dict[int, list[str]] = {}
    if is_wide(table, fit) and rows.title:
        table = with_intervals(table)
        if len(rows.rows) == 1:
            return transposed(table, fit)
        lines, table = split_constant_columns(table, fit)
        if is_wide(table, fit) and len(rows.rows) <= MOST_TRANSPOSED:
            return lines + transposed(table, fit)
        if is_wide(table, fit):
            run_headings, table = group_by_run(table, fit)
    if rows.folds:
        layouts = [folded(table.heads, table.rows, table.to_right, fit)]
    else:
        parts = split_to_fit(table, run_headings, fit)
        layouts = [laid_out(part.heads, part.rows, part.to_right, fit) for part in parts]
    return lines + _stacked(layouts, run_headings, is_bold=is_bold)


def _stacked(
    layouts: Sequence[Layout], run_headings: Mapping[int, list[str]], *, is_bold: bool
) -> list[str]:
    """Return the parts of a table one below the other, with run headings above their rows."""
    lines: list[str] = []
    for number, layout in enumerate(layouts):
        lines += [""] if number else []
        lines += [f"{_BOLD}{line}{_PLAIN}" if is_bold else line for line in layout.head]
        for row_number, line in enumerate(layout.body):
            lines += [*run_headings.get(row_number, ()), line]
    return lines


def takes_bold(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal whose user wants more than plain text (NO_COLOR)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def width_of(stream: TextIO) -> int:
    """Return how many columns a terminal has, 0 for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


def rows_of(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Rows:
    """Return records as rows of the named columns."""
    return Rows(
        columns=tuple(columns),
        rows=tuple(tuple(record.get(name) for name in columns) for record in records),
    )
