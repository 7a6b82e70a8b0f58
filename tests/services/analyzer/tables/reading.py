"""One analysis' table of a described input, its rows as maps."""

from typing import Any

from schemas.analysis import Table
from services.analyzer.building.table import Analysis
from services.analyzer.frames.evaluation import ANSWERED
from tests.services.analyzer.golden import frames_in

MS = 1_000_000


def table_of(analysis: Analysis, *runs: dict[str, Any], **more: Any) -> Table:
    """Return the table of these runs."""
    return analysis.compute(frames_in({"runs": list(runs), **more}))


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return a table's rows by column."""
    return table.records()


def query(
    number: int,
    begin: int,
    end: int,
    *,
    due: int | None = None,
    started: int | None = None,
    size: int = 1,
    block: int = 0,
) -> list[Any]:
    """Return an answered query's row, begun at once unless `started`; times in ns."""
    started = begin if started is None else started
    return [number, block, size, due, begin, started, end, end - started, ANSWERED]


def span(
    number: int, level: int, name: str, duration: int, *, of: int = 0, layer: int | None = None
) -> list[Any]:
    """Return a span's row; `of` is its query, `number` also when it begins."""
    return [number, None, level, name, number, duration, 0, of, 0, layer]
