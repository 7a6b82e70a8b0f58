"""Rows of analysis tables, as maps from column to value."""

from collections.abc import Iterable
from typing import Any

from schemas.analysis import Table

NUMBERED = tuple(f"A{number}" for number in range(1, 16))
ROOFED = ("A9", "A14", "A15")
"""Those that hold a kernel, a layer or the model to the device's roof."""


def rows_of(tables: Iterable[Table], name: str) -> list[dict[str, Any]]:
    """Return the rows of the table of an id or a name. Raises StopIteration without one."""
    table = next(each for each in tables if name in (each.id, each.name))
    return table.records()


def empty_in(tables: Iterable[Table]) -> set[str]:
    """Return the numbered tables without rows."""
    return {each.id for each in tables if each.id in NUMBERED and not each.rows}
