"""An evaluation's tables: what is said of several once, few columns first, all of them below."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mlscope.client.brief import COLUMNS, caveat_lines, parted_caveats
from mlscope.client.quantities import heads_of, shown, unit_of
from schemas.analysis import Column, Table, Tables
from services.gateway.pages.markup import Markup, element, text_of

_LONG = 40
_POINT = re.compile(r"(?<=\d)_(?=\d)")
"""What stands for a decimal point in a column's name: p99_9."""
_FILES = (("CSV", ".csv"), ("JSON", ""), ("Parquet", ".parquet"), ("Arrow", ".arrow"))
_CONDITIONS = "conditions"
_MANY_ROWS = 5
"""Rows from which on what all of them have alike is said above them, not in each."""
_RUN = "run"
_PLACES = ("agent", "session")
_IN_ITS_NAME = ("scenario", "batch_size", "level")
"""What a run's name says as well: a narrow screen leaves these out beside it."""

_FEW: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **COLUMNS,
        "accuracy": ("metric", "value", "hits", "n", "counts", "kind", "dataset", "same_build"),
        "lateness": ("pacing", "count", "early", "p50", "p99", "max", "begun_p50", "begun_p99"),
        "layers": ("index", "name", "type", "shape", "queries", "time", "share"),
    }
)
"""Columns that say most, for a page's width; all are below them."""


def sections_of(tables: Tables) -> Iterator[Markup]:
    """Yield what must be read beside several tables, then each table, the conditions last."""
    ordered = sorted(tables.tables, key=lambda table: table.name == _CONDITIONS)
    shared, own = parted_caveats(ordered)
    if shared:
        notes = (element("li", line) for line in caveat_lines(shared))
        yield element(
            "section",
            element("h2", "To be read beside the results"),
            element("ul", *notes, class_="notes"),
            id="caveats",
        )
    for table in ordered:
        total = tables.total_rows.get(table.name, 0)
        yield _section(tables.evaluation, table, own[table.name], total)


def _section(evaluation: str, table: Table, caveats: Sequence[str], total_rows: int) -> Markup:
    rest = f"the first {len(table.rows)} of {total_rows} rows; the files hold all"
    return element(
        "section",
        element("h2", table.title or table.name),
        element("p", table.verdict, class_="verdict") if table.verdict else "",
        *_bodies(table),
        *(element("p", caveat, class_="note") for caveat in caveat_lines(caveats)),
        element("p", rest, class_="note") if total_rows > len(table.rows) else "",
        _links(evaluation, table),
        data_table=table.name,
    )


def _links(evaluation: str, table: Table) -> Markup:
    address = f"/api/evaluations/{evaluation}/tables/{table.name}"
    links = [(element("a", name, href=f"{address}{end}"), " ") for name, end in _FILES]
    return element("p", *(text_of(*link) for link in links), class_="files")


def _bodies(table: Table) -> Iterator[Markup]:
    """Yield a table: whole; or few columns and all; or what all rows share and what differs.

    An empty one is its verdict alone, and where all was measured in one place is not said again.
    """
    columns = [
        c for c in _shown_columns(table.columns) if c.name not in _PLACES or _differs(table, c)
    ]
    if not table.rows:
        return
    if table.name == _CONDITIONS and len(table.rows) > 1:
        alike, columns = _parted(table, _shown_columns(table.columns))
        yield _drawn(table, columns)
        yield _told_once(table, alike)
        return
    few = _FEW.get(table.name, ())
    if not few and len(table.rows) >= _MANY_ROWS:
        alike = [c for c in columns if _is_lifted(table, c)]
        alike = alike if len(alike) < len(columns) else []
        if told := _in_every_row(table, alike):
            yield element("p", told, class_="alike")
        yield _drawn(table, [column for column in columns if column not in alike])
        return
    if not few:
        yield _drawn(table, columns)
        return
    kept = [column for column in columns if column.name in (_RUN, *few)]
    yield _drawn(table, [column for column in kept if _says(table, column)] or columns)
    every = _drawn(table, _shown_columns(table.columns))
    yield element("details", element("summary", "All columns"), every)


def _is_lifted(table: Table, column: Column) -> bool:
    """Say whether all rows are alike in a column, which has no interval of its own."""
    has_bounds = any(each.name == f"{column.name}_low" for each in table.columns)
    return not has_bounds and not _differs(table, column)


def _in_every_row(table: Table, columns: Sequence[Column]) -> str:
    """Return what all rows have alike: `In every row: run b1, scenario online`."""
    texts = [_text(_values(table, column)[0], column) for column in columns]
    named = zip(_heads(columns), texts, strict=True)
    told = [f"{head} {text}" for head, text in named if text not in ("", shown(None))]
    return f"In every row: {', '.join(told)}." if told else ""


def _values(table: Table, column: Column) -> list[Any]:
    place = table.columns.index(column)
    return [row[place] for row in table.rows]


def _says(table: Table, column: Column) -> bool:
    """Tell whether a column says something: failures that happened."""
    return column.name != "failed" or any(_values(table, column))


def _differs(table: Table, column: Column) -> bool:
    values = _values(table, column)
    return any(value != values[0] for value in values)


def _parted(table: Table, columns: Sequence[Column]) -> tuple[list[Column], list[Column]]:
    """Return the columns in which all rows are alike, and those in which they differ."""
    alike = [column for column in columns if not _differs(table, column)]
    return alike, [column for column in columns if column not in alike]


def _told_once(table: Table, columns: Sequence[Column]) -> Markup:
    told = [
        (column, head, _text(_values(table, column)[0], column))
        for column, head in zip(columns, _heads(columns), strict=True)
    ]
    pairs = [
        (element("dt", head, title=column.description or None), element("dd", text))
        for column, head, text in told
        if text not in ("", shown(None))
    ]
    return element(
        "details",
        element("summary", "The same in every run"),
        element("dl", *(part for pair in pairs for part in pair)),
        open=True,
    )


def _drawn(table: Table, columns: Sequence[Column]) -> Markup:
    named = zip(columns, _heads(columns), strict=True)
    heads = element("tr", *(_head(column, text) for column, text in named))
    rows = element("tbody", *(element("tr", *_cells(table, columns, row)) for row in table.rows))
    has_run = any(column.name == _RUN for column in columns)
    kind = "wide named" if has_run else "wide"
    return element("div", element("table", element("thead", heads), rows), class_=kind)


def _shown_columns(columns: Sequence[Column]) -> list[Column]:
    """Return all columns but an estimate's interval, which stands under the estimate."""
    names = {column.name for column in columns}
    return [c for c in columns if not (_is_bound(c.name) and c.name.rpartition("_")[0] in names)]


def _is_bound(name: str) -> bool:
    return name.endswith(("_low", "_high"))


def _head(column: Column, text: str) -> Markup:
    title = column.description or None
    return element("th", text, title=title, class_=_class_of(column, ""))


def _heads(columns: Sequence[Column]) -> list[str]:
    heads = heads_of([(column.name, column.unit) for column in columns])
    return [_POINT.sub(".", head).replace("_", " ") for head in heads]


def _cells(table: Table, columns: Sequence[Column], row: Sequence[Any]) -> Iterator[Markup]:
    values = {column.name: value for column, value in zip(table.columns, row, strict=False)}
    for column in columns:
        text = _text(values.get(column.name), column)
        bounds = _bounds(values, column.name, unit_of(column))
        yield element("td", text, bounds, class_=_class_of(column, text))


def _text(value: Any, column: Column) -> str:
    """Return a cell's text; a map, JSON in the tables, is its names and values."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            told = json.loads(value)
            return ", ".join(f"{name} {shown(each)}" for name, each in told.items())
    return shown(value, unit_of(column))


def _bounds(values: Mapping[str, Any], name: str, unit: str) -> Markup | str:
    low, high = values.get(f"{name}_low"), values.get(f"{name}_high")
    if low is None or high is None:
        return ""
    first, last = shown(low, unit), shown(high, unit)
    if first.partition(" ")[2] == last.partition(" ")[2]:
        first = first.partition(" ")[0]
    return element("small", f"{first} … {last}")


def _class_of(column: Column, text: str) -> str | None:
    is_number = column.type in ("int", "float")
    found = (
        ("number", is_number),
        ("long", not is_number and len(text) > _LONG),
        ("in-name", column.name in _IN_ITS_NAME),
    )
    return " ".join(name for name, holds in found if holds) or None
