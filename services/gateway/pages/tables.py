"""An evaluation's tables: shared caveats, then each table with its most important columns. Pure."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from mlscope.client.brief import COLUMNS, caveat_lines, is_shown, parted_caveats
from mlscope.quantities import estimate_text, heads_of, shown, unit_of
from schemas.analysis import Column, Table, Tables

_LONG = 40
_DECIMAL_POINT = re.compile(r"(?<=\d)_(?=\d)")
"""The underscore that stands for a decimal point in a column's name: p99_9."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FILES = (("CSV", ".csv"), ("JSON", ""), ("Parquet", ".parquet"), ("Arrow", ".arrow"))
_CONDITIONS = "conditions"
ALL_IN_FILES = "the files have all rows"
_MANY_ROWS = 5
"""From this number of rows on, values that are equal in all rows are listed above the table."""
_RUN = "run"
_PLACES = ("agent", "session")
_IN_RUN_NAME = ("scenario", "batch_size", "level")
"""Columns that repeat parts of a run's name; a narrow screen hides them."""

MAIN_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **COLUMNS,
        "accuracy": ("metric", "value", "hits", "n", "counts", "kind", "dataset", "same_build"),
        "lateness": ("pacing", "count", "early", "p50", "p99", "max", "begun_p50", "begun_p99"),
        "layers": ("index", "name", "time", "share", "type", "shape", "queries"),
    }
)
"""The columns that fit the width of a page; all columns follow below them."""


@dataclass(frozen=True, slots=True)
class Head:
    """A column's heading; `kind` is its class."""

    text: str
    description: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's text; `interval` says what is known of its estimate's, '' without an estimate."""

    text: str
    kind: str
    interval: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """A value that is equal in all rows."""

    name: str
    value: str
    description: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under headings; `has_run` if a column names the run."""

    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    has_run: bool


@dataclass(frozen=True, slots=True)
class Section:
    """One table: what a reader sees first, and all its columns if those are more."""

    name: str
    title: str
    verdict: str
    notes: Sequence[str]
    files: Sequence[tuple[str, str]]
    grid: Grid | None = None
    alike: str = ""
    constant: Sequence[Pair] = ()
    all_columns: Grid | None = None


@dataclass(frozen=True, slots=True)
class TablesView:
    """The caveats that tables share, then each table, the conditions last."""

    caveats: Sequence[str]
    sections: Sequence[Section]


def tables_view(tables: Tables, elsewhere: str = ALL_IN_FILES) -> TablesView:
    """Return the view of an evaluation's tables; `elsewhere` says where rows are that it lacks."""
    ordered = sorted(tables.tables, key=lambda table: table.name == _CONDITIONS)
    shared, own = parted_caveats(ordered)
    sections = []
    for table in ordered:
        notes = list(caveat_lines(own[table.name]))
        total_rows = tables.total_rows.get(table.name, 0)
        if total_rows > len(table.rows):
            cut = f"The first {len(table.rows)} of {total_rows} rows; {elsewhere}."
            notes.append(cut)
        address = f"/api/evaluations/{tables.evaluation}/tables/{table.name}"
        section = Section(
            name=table.name,
            title=table.title or table.name,
            verdict=table.verdict,
            notes=notes,
            files=[(name, f"{address}{suffix}") for name, suffix in _FILES],
        )
        sections.append(_with_body(section, table))
    return TablesView(list(caveat_lines(shared)) if shared else [], sections)


def _with_body(section: Section, table: Table) -> Section:
    """Add a table completely, or its main columns and then all, or without constant columns.

    A table without rows has no body. The columns of `_PLACES` are omitted when they are constant.
    """
    if not table.rows:
        return section
    all_columns = without_bounds(table.columns)
    differing = [column for column in all_columns if differs(table, column)]
    if table.name == _CONDITIONS and len(table.rows) > 1:
        constant = [column for column in all_columns if column not in differing]
        pairs = [
            Pair(head, text, column.description)
            for column, head, text in named_values(table, constant)
        ]
        return replace(section, grid=grid_of(table, differing), constant=pairs)
    columns = [c for c in all_columns if c.name not in _PLACES or c in differing]
    main = MAIN_COLUMNS.get(table.name, ())
    if not main:
        return _with_differing(section, table, columns)
    selected = [
        column
        for column in columns
        if column.name in (_RUN, *main) and is_shown(table, table.columns.index(column))
    ]
    return replace(
        section,
        grid=grid_of(table, selected or columns),
        all_columns=grid_of(table, all_columns),
    )


def _with_differing(section: Section, table: Table, columns: Sequence[Column]) -> Section:
    """Add a table; of many rows, values that are equal in all of them are said above it."""
    if len(table.rows) < _MANY_ROWS:
        return replace(section, grid=grid_of(table, columns))
    constant = constant_columns(table, columns)
    if len(constant) == len(columns):
        constant = []
    return replace(
        section,
        alike=constant_text(table, constant),
        grid=grid_of(table, [column for column in columns if column not in constant]),
    )


def _values(table: Table, column: Column) -> list[Any]:
    position = table.columns.index(column)
    return [row[position] for row in table.rows]


def differs(table: Table, column: Column) -> bool:
    """Tell whether a `column` of a `table` has several values."""
    values = _values(table, column)
    return any(value != values[0] for value in values)


def constant_columns(table: Table, columns: Sequence[Column]) -> list[Column]:
    """Return those `columns` of a `table` that have one value and are no estimates."""
    names = {column.name for column in table.columns}
    return [
        column
        for column in columns
        if f"{column.name}_low" not in names and not differs(table, column)
    ]


def constant_text(table: Table, constant: Sequence[Column]) -> str:
    """Return a sentence with the values of `constant` columns of a `table`, '' without any."""
    values = named_values(table, constant) if table.rows else []
    texts = ", ".join(f"{head} {value}" for _, head, value in values)
    return f"In every row: {texts}." if texts else ""


def named_values(table: Table, columns: Sequence[Column]) -> list[tuple[Column, str, str]]:
    """Return column, heading and text of the first row's values, without missing ones."""
    texts = [_text(_values(table, column)[0], column) for column in columns]
    return [
        (column, head, text)
        for column, head, text in zip(columns, heads_in(columns), texts, strict=True)
        if text not in ("", shown(None))
    ]


def grid_of(table: Table, columns: Sequence[Column]) -> Grid:
    """Return all rows of a `table` with these of its `columns`."""
    heads = [
        Head(text, column.description, kind_of(column))
        for column, text in zip(columns, heads_in(columns), strict=True)
    ]
    rows = [list(_cells(table, columns, row)) for row in table.rows]
    return Grid(heads, rows, has_run=any(column.name == _RUN for column in columns))


def without_bounds(columns: Sequence[Column]) -> list[Column]:
    """Return the columns without the bounds of intervals, which are below their estimates."""
    names = {column.name for column in columns}

    def is_bound(name: str) -> bool:
        return name.endswith(("_low", "_high")) and name.rpartition("_")[0] in names

    return [column for column in columns if not is_bound(column.name)]


def heads_in(columns: Sequence[Column]) -> list[str]:
    """Return the headings of columns, for people."""
    heads = heads_of([(column.name, column.unit) for column in columns])
    return [_DECIMAL_POINT.sub(".", head).replace("_", " ") for head in heads]


def _cells(table: Table, columns: Sequence[Column], row: Sequence[Any]) -> Iterator[Cell]:
    values = {column.name: value for column, value in zip(table.columns, row, strict=False)}
    for column in columns:
        value = values.get(column.name)
        bounds = [f"{column.name}{end}" for end in ("_low", "_high")]
        if not isinstance(value, int | float) or not values.keys() & {*bounds}:
            text = _text(value, column)
            yield Cell(text, kind_of(column, text))
            continue
        low, high = (values.get(bound) for bound in bounds)
        amount, interval = estimate_text(value, low, high, unit_of(column))
        yield Cell(amount, kind_of(column, amount), interval)


def _text(value: Any, column: Column) -> str:
    """Return a cell's text; a moment in ISO 8601 and a map, held as JSON, as people read them."""
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return f"{value[:10]} {value[11:19]} UTC"
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            entries = json.loads(value)
            return ", ".join(f"{name} {shown(entry)}" for name, entry in entries.items())
    return shown(value, unit_of(column))


def kind_of(column: Column, text: str = "") -> str:
    """Return the classes of a cell of a `column` that holds `text`, or of its heading."""
    is_number = column.type in ("int", "float")
    classes = {
        "number": is_number,
        "long": not is_number and len(text) > _LONG,
        "in-name": column.name in _IN_RUN_NAME,
    }
    return " ".join(name for name, applies in classes.items() if applies)
