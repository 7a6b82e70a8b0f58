"""Cells of result tables by run and column, and figures of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlscope.quantities import unit_of
from schemas.analysis import Estimate, Table
from services.gateway.pages.headlines import Figure, figure_of

Cells = Mapping[str, Any]


def rows_of(tables: Mapping[str, Table], name: str) -> list[dict[str, Any]]:
    """Return the rows of the table `name` as maps by column; none if there is no such table."""
    return tables[name].records() if name in tables else []


def rows_by_run(tables: Mapping[str, Table], name: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the table `name`, which has one for each run, by run."""
    return {str(row.get("run", "")): row for row in rows_of(tables, name)}


def figure_in(table: Table | None, row: Cells, column: str, note: str = "") -> Figure | None:
    """Return the figure in a `column` of a `row` of a `table`, None where there is no value.

    `note` says what it is.
    """
    if table is None or not isinstance(row.get(column), int | float):
        return None
    unit = next((unit_of(candidate) for candidate in table.columns if candidate.name == column), "")
    return figure_of(estimate_in(row, column), unit, note)


def estimate_in(row: Cells, column: str) -> Estimate:
    """Return the number in a `column` of a `row`, with the ends of its interval if it has any."""
    low, high = (row.get(f"{column}_{end}") for end in ("low", "high"))
    return Estimate(value=row[column], low=low, high=high)


def with_value(rows: Iterable[Cells], column: str) -> Sequence[Cells]:
    """Return the rows that have a number in a `column`."""
    return [row for row in rows if isinstance(row.get(column), int | float)]
