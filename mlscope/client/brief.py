"""A result as text: the columns that say most, aligned, with its verdict and its caveats. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mlscope.quantities import estimated, heads_of, shown, unit_of
from mlscope.texts.layout import Layout, laid_out, wrapped
from schemas.analysis import Table

COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "latency": (
            "agent",
            "scenario",
            "batch_size",
            "level",
            "count",
            "failed",
            "trimmed_mean",
            "median",
            "p90",
            "p99",
            "service_median",
        ),
        "throughput": (
            "agent",
            "scenario",
            "batch_size",
            "level",
            "samples_per_s",
            "offered_per_s",
        ),
        "regressions": (
            "second",
            "agent",
            "scenario",
            "batch_size",
            "level",
            "changed",
            "unlike",
            "first_latency",
            "second_latency",
            "change",
            "drift_share",
            "noisy",
            "result",
        ),
    }
)
"""The columns that say most, of tables that have many."""

HEADLINES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "latency": ("trimmed_mean", "p90", "p99"),
        "throughput": ("samples_per_s",),
        "regressions": ("change",),
    }
)
"""The estimates of tables with many whose intervals say whether they may be relied on."""

SUMMARY = ("latency", "throughput")
"""The tables that are an evaluation's result in short."""

FAILURES = "failures"
"""The table that says why queries failed; it belongs to the result when it has rows."""

LEAST_MERGED = 3
"""Runs that say the same with other numbers, from which on it is said once."""
MOST_NAMED = 4
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w-]|\.\d)")
"""A quantity: digits of names (`conv1`, `layer4.0`), versions (`1.2.3`) and dates are none."""

_UNLESS_EMPTY = ("failed", "offered_per_s", "changed", "unlike", "drift_share", "noisy")
_UNLESS_ALIKE = ("agent", "second")
_RUNS = ("run", "second_run")
_CALLED_BY = ("second", "agent", "scenario", "batch_size", "level")


def brief(table: Table) -> Table:
    """Return a table with the columns that say most; one that is not known here has all.

    Estimates become texts with their intervals: `12.3 ms (12.1 … 12.6)`. Of a table in `HEADLINES`
    it is those there, and further bounds are left out.
    """
    table = with_headline_intervals(table)
    names = [column.name for column in table.columns]
    shown_names = [name for name in COLUMNS.get(table.name, ()) if name in names]
    # Runs that are alike in what they are called by, as serialised ones may be, have names.
    called_by = [names.index(name) for name in _CALLED_BY if name in names]
    called = {tuple(row[place] for place in called_by) for row in table.rows}
    if shown_names and len(called) < len(table.rows):
        shown_names = [*(name for name in _RUNS if name in names), *shown_names]
    shown_names = shown_names or [name for name in names if not name.endswith(("_low", "_high"))]
    places = [names.index(name) for name in shown_names]
    places = [place for place in places if is_shown(table, place)]
    return table.model_copy(
        update={
            "columns": tuple(table.columns[place] for place in places),
            "rows": tuple(tuple(row[place] for place in places) for row in table.rows),
        }
    )


def with_headline_intervals(table: Table) -> Table:
    """Return a table whose estimates are texts with the ends of their intervals.

    Of a table in `HEADLINES` it is those there.
    """
    places = {column.name: place for place, column in enumerate(table.columns)}
    estimates = HEADLINES.get(table.name, tuple(places))
    merged = {
        places[name]: (places[f"{name}_low"], places[f"{name}_high"])
        for name in estimates
        if {name, f"{name}_low", f"{name}_high"} <= places.keys()
    }
    bounds = {place for ends in merged.values() for place in ends}

    def cell_of(row: Sequence[Any], place: int) -> Any:
        if place not in merged or row[place] is None:
            return row[place]
        low, high = (row[end] for end in merged[place])
        return estimated(row[place], low, high, unit_of(table.columns[place]))

    visible = [place for place in range(len(table.columns)) if place not in bounds]
    columns = tuple(
        column.model_copy(update={"type": "text", "unit": ""}) if place in merged else column
        for place, column in enumerate(table.columns)
        if place in visible
    )
    rows = tuple(tuple(cell_of(row, place) for place in visible) for row in table.rows)
    return table.model_copy(update={"columns": columns, "rows": rows})


def table_layout(table: Table, fit: int = 0) -> Layout:
    """Return a table as aligned lines, numbers to the right with their units."""
    units = [unit_of(column) for column in table.columns]
    cells = [
        [shown(value, unit) for value, unit in zip(row, units, strict=True)] for row in table.rows
    ]
    to_right = [column.type in ("int", "float") for column in table.columns]
    heads = heads_of([(column.name, column.unit) for column in table.columns])
    return laid_out(heads, cells, to_right, fit)


def parted_caveats(tables: Sequence[Table]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the caveats that several tables have, each once, and by table those of it alone."""
    counts = Counter(caveat for table in tables for caveat in set(table.caveats))
    shared = [caveat for table in tables for caveat in table.caveats if counts[caveat] > 1]
    own = {table.name: [c for c in table.caveats if counts[c] == 1] for table in tables}
    return list(dict.fromkeys(shared)), own


def caveat_lines(caveats: Sequence[str]) -> list[str]:
    """Return caveats, those that differ in their run alone as one.

    What several runs say with numbers of their own is said once, each number from least to most.
    """
    runs: dict[str, list[str]] = {}
    for caveat in caveats:
        run, colon, text = caveat.partition(": ")
        if not colon or (" " in run and ": " in text):
            run, text = "", caveat
        runs.setdefault(text, []).append(run)
    kinds: dict[tuple[str, bool], list[str]] = {}
    for text, names in runs.items():
        kinds.setdefault((_NUMBER.sub("\0", text), bool(names[0])), []).append(text)
    lines = []
    for (_, has_runs), texts in kinds.items():
        if has_runs and len(texts) >= LEAST_MERGED:
            every = list(dict.fromkeys(name for text in texts for name in runs[text]))
            lines.append(f"{_listed(every)}: {_spread(texts)}")
        else:
            lines += [f"{_listed(runs[t])}: {t}" if has_runs else t for t in texts]
    return lines


def _listed(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} other runs"


def _spread(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers alone as one: `3…9 of 12`."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ends = [(min(column, key=float), max(column, key=float)) for column in columns]
    ranges = iter(
        low if low == high else f"{low}\N{HORIZONTAL ELLIPSIS}{high}" for low, high in ends
    )
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def text_of(table: Table, fit: int = 0) -> str:
    """Return a table in brief as a text to read: title, rows, verdict, caveats."""
    layout = table_layout(brief(table), fit)
    lines = [table.title or table.name, *layout.head, *layout.body]
    for text in (table.verdict, *caveat_lines(table.caveats)):
        lines += wrapped(text, fit) if text else []
    return "\n".join(lines)


def is_shown(table: Table, place: int) -> bool:
    """Tell whether a column of a `table` says something: some are empty, or alike in all rows."""
    name, values = table.columns[place].name, [row[place] for row in table.rows]
    if name in _UNLESS_ALIKE and table.name in COLUMNS:
        return any(value != values[0] for value in values)
    return name not in _UNLESS_EMPTY or any(values)
