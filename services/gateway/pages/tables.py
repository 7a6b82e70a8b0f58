"""An evaluation's tables: shared caveats, then each table with its most important columns. Pure."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mlscope.client.brief import COLUMNS, caveat_lines, parted_caveats
from mlscope.quantities import heads_of, shown, unit_of
from schemas.analysis import Column, Table, Tables
from services.gateway.pages.markup import Markup, element

_LONG = 40
_DECIMAL_POINT = re.compile(r"(?<=\d)_(?=\d)")
"""The underscore that stands for a decimal point in a column's name: p99_9."""
_FILES = (("CSV", ".csv"), ("JSON", ""), ("Parquet", ".parquet"), ("Arrow", ".arrow"))
_CONDITIONS = "conditions"
_MANY_ROWS = 5
"""From this number of rows on, values that are equal in all rows are listed above the table."""
_RUN = "run"
_PLACES = ("agent", "session")
_IN_RUN_NAME = ("scenario", "batch_size", "level")
"""Columns that repeat parts of a run's name; a narrow screen hides them."""

_MAIN_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **COLUMNS,
        "accuracy": ("metric", "value", "hits", "n", "counts", "kind", "dataset", "same_build"),
        "lateness": ("pacing", "count", "early", "p50", "p99", "max", "begun_p50", "begun_p99"),
        "layers": ("index", "name", "type", "shape", "queries", "time", "share"),
    }
)
"""The columns that fit the width of a page; all columns follow below them."""


def sections_of(tables: Tables) -> Iterator[Markup]:
    """Yield the caveats that tables share, then each table, the conditions last."""
    ordered = sorted(tables.tables, key=lambda table: table.name == _CONDITIONS)
    shared, own = parted_caveats(ordered)
    if shared:
        caveats = (element("li", line) for line in caveat_lines(shared))
        yield element(
            "section",
            element("h2", "Caveats"),
            element("ul", *caveats, class_="notes"),
            id="caveats",
        )
    for table in ordered:
        total_rows = tables.total_rows.get(table.name, 0)
        cut = f"The first {len(table.rows)} of {total_rows} rows; the files have all rows."
        address = f"/api/evaluations/{tables.evaluation}/tables/{table.name}"
        links = [element("a", name, href=f"{address}{suffix}") for name, suffix in _FILES]
        yield element(
            "section",
            element("h2", table.title or table.name),
            element("p", table.verdict, class_="verdict") if table.verdict else "",
            *_bodies(table),
            *(element("p", line, class_="note") for line in caveat_lines(own[table.name])),
            element("p", cut, class_="note") if total_rows > len(table.rows) else "",
            element("p", *((link, " ") for link in links), class_="files"),
            data_table=table.name,
        )


def _bodies(table: Table) -> Iterator[Markup]:
    """Yield a table completely, or its main columns and then all, or without constant columns.

    A table without rows has no body. The columns of `_PLACES` are omitted when they are constant.
    """
    if not table.rows:
        return
    all_columns = _without_bounds(table.columns)
    differing = [column for column in all_columns if _differs(table, column)]
    if table.name == _CONDITIONS and len(table.rows) > 1:
        constant = [column for column in all_columns if column not in differing]
        yield _drawn(table, differing)
        yield _constant_values(table, constant)
        return
    columns = [c for c in all_columns if c.name not in _PLACES or c in differing]
    main = _MAIN_COLUMNS.get(table.name, ())
    if not main:
        yield from _body_of_differing(table, columns)
        return
    selected = [
        column
        for column in columns
        if column.name in (_RUN, *main) and (column.name != "failed" or any(_values(table, column)))
    ]
    yield _drawn(table, selected or columns)
    yield element("details", element("summary", "All columns"), _drawn(table, all_columns))


def _body_of_differing(table: Table, columns: Sequence[Column]) -> Iterator[Markup]:
    """Yield a table; of many rows, values that are equal in all of them are listed above it."""
    if len(table.rows) < _MANY_ROWS:
        yield _drawn(table, columns)
        return
    names = {column.name for column in table.columns}
    constant = [
        column
        for column in columns
        if f"{column.name}_low" not in names and not _differs(table, column)
    ]
    if len(constant) == len(columns):
        constant = []
    if values := _named_values(table, constant):
        text = ", ".join(f"{head} {value}" for _, head, value in values)
        yield element("p", f"In every row: {text}.", class_="alike")
    yield _drawn(table, [column for column in columns if column not in constant])


def _values(table: Table, column: Column) -> list[Any]:
    position = table.columns.index(column)
    return [row[position] for row in table.rows]


def _differs(table: Table, column: Column) -> bool:
    values = _values(table, column)
    return any(value != values[0] for value in values)


def _named_values(table: Table, columns: Sequence[Column]) -> list[tuple[Column, str, str]]:
    """Return column, heading and text of the first row's values, without missing ones."""
    texts = [_text(_values(table, column)[0], column) for column in columns]
    return [
        (column, head, text)
        for column, head, text in zip(columns, _heads(columns), texts, strict=True)
        if text not in ("", shown(None))
    ]


def _constant_values(table: Table, columns: Sequence[Column]) -> Markup:
    pairs = [
        (element("dt", head, title=column.description or None), element("dd", text))
        for column, head, text in _named_values(table, columns)
    ]
    return element(
        "details",
        element("summary", "The same in every run"),
        element("dl", *(part for pair in pairs for part in pair)),
        open=True,
    )


def _drawn(table: Table, columns: Sequence[Column]) -> Markup:
    heads = [
        element("th", text, title=column.description or None, class_=_class_of(column, ""))
        for column, text in zip(columns, _heads(columns), strict=True)
    ]
    rows = element("tbody", *(element("tr", *_cells(table, columns, row)) for row in table.rows))
    has_run = any(column.name == _RUN for column in columns)
    kind = "wide named" if has_run else "wide"
    head = element("thead", element("tr", *heads))
    return element("div", element("table", head, rows), class_=kind)


def _without_bounds(columns: Sequence[Column]) -> list[Column]:
    """Return the columns without the bounds of intervals, which are below their estimates."""
    names = {column.name for column in columns}

    def is_bound(name: str) -> bool:
        return name.endswith(("_low", "_high")) and name.rpartition("_")[0] in names

    return [column for column in columns if not is_bound(column.name)]


def _heads(columns: Sequence[Column]) -> list[str]:
    heads = heads_of([(column.name, column.unit) for column in columns])
    return [_DECIMAL_POINT.sub(".", head).replace("_", " ") for head in heads]


def _cells(table: Table, columns: Sequence[Column], row: Sequence[Any]) -> Iterator[Markup]:
    values = {column.name: value for column, value in zip(table.columns, row, strict=False)}
    for column in columns:
        text = _text(values.get(column.name), column)
        low, high = values.get(f"{column.name}_low"), values.get(f"{column.name}_high")
        if low is None or high is None:
            yield element("td", text, "", class_=_class_of(column, text))
            continue
        first, last = shown(low, unit_of(column)), shown(high, unit_of(column))
        if first.partition(" ")[2] == last.partition(" ")[2]:
            first = first.partition(" ")[0]
        interval = element("small", f"{first} … {last}")
        yield element("td", text, interval, class_=_class_of(column, text))


def _text(value: Any, column: Column) -> str:
    """Return a cell's text; for a map, which tables hold as JSON, its names and values."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            entries = json.loads(value)
            return ", ".join(f"{name} {shown(entry)}" for name, entry in entries.items())
    return shown(value, unit_of(column))


def _class_of(column: Column, text: str) -> str | None:
    is_number = column.type in ("int", "float")
    classes = {
        "number": is_number,
        "long": not is_number and len(text) > _LONG,
        "in-name": column.name in _IN_RUN_NAME,
    }
    return " ".join(name for name, applies in classes.items() if applies) or None
