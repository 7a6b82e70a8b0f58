"""The conditions of evaluations: those that differ first, then those that are alike. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.quantities import shown, unit_of
from schemas.analysis import Column, Table

_PLACES = ("run", "session", "attempt", "scenario", "batch_size", "level", "variant", "kind")
"""Columns that say which run a row is of, or that its load says already."""
_RESULTS = ("note", "queries", "spans", "end", "layers", "caveats")
_MEASURED = ("noise", "load_ns", "first_run_ns", "started", "clock", "prepared_bytes")
"""Conditions that nobody chose: measured with a run, they differ always."""


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition and its values, one an evaluation; `marks` says which differ from the first."""

    name: str
    description: str
    values: Sequence[str]
    marks: Sequence[bool]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that differ, those that are `alike` with their value, and `measured` ones."""

    differing: Sequence[ConditionRow]
    measured: Sequence[ConditionRow]
    alike: Sequence[tuple[str, str]]


def conditions_of(tables: Sequence[Table | None]) -> Conditions:
    """Return the conditions in the tables `conditions`, one an evaluation, None without one."""
    columns: dict[str, Column] = {}
    for table in tables:
        columns |= {column.name: column for column in table.columns} if table else {}
    texts = [dict(_texts(table)) if table else {} for table in tables]
    names = list(dict.fromkeys(name for of_evaluation in texts for name in of_evaluation))
    differing: list[ConditionRow] = []
    measured: list[ConditionRow] = []
    alike = []
    for name in names:
        values = [of_evaluation.get(name, "") for of_evaluation in texts]
        head = name.replace("_", " ")
        if len(set(values)) == 1:
            alike.append((head, values[0]))
            continue
        marks = [value != values[0] for value in values]
        outer = name.partition(".")[0]
        description = columns[outer].description if outer in columns else ""
        rows = measured if outer.startswith(_MEASURED) else differing
        rows.append(
            ConditionRow(head, description, [value or shown(None) for value in values], marks)
        )
    return Conditions(differing, measured, [(name, value) for name, value in alike if value])


def _texts(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the distinct values of each column of a table; maps by their own keys."""
    for place, column in enumerate(table.columns):
        if column.name in (*_PLACES, *_RESULTS) or column.name.endswith(("_low", "_high")):
            continue
        maps = [_map_in(row[place]) for row in table.rows]
        keys = list(dict.fromkeys(key for entries in maps if entries for key in entries))
        for key in keys:
            values = [entries[key] for entries in maps if entries and key in entries]
            yield f"{column.name}.{key}", _joined(values, Column(name=key, type="text"))
        if not keys:
            yield column.name, _joined([row[place] for row in table.rows], column)


def _map_in(value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    try:
        entries = json.loads(value)
    except ValueError:
        return None
    return entries if isinstance(entries, dict) else None


def _joined(values: Sequence[Any], column: Column) -> str:
    """Return the distinct values as a text; of many numbers their range."""
    distinct = list(dict.fromkeys(value for value in values if value not in (None, "", "{}")))
    numbers = [v for v in distinct if isinstance(v, int | float) and not isinstance(v, bool)]
    unit = unit_of(column)
    if len(numbers) == len(distinct) > 3:
        return f"{shown(min(numbers), unit)} to {shown(max(numbers), unit)}"
    return ", ".join(
        json.dumps(value) if isinstance(value, dict | list) else shown(value, unit)
        for value in distinct
    )
