"""The report as one HTML file: styles and charts are inside, nothing is loaded."""

import asyncio
from datetime import UTC, datetime
from importlib.metadata import version

from schemas.analysis import Table, Tables
from schemas.status import EvaluationStatus
from services.gateway.charts.drawing import Pictures
from services.gateway.charts.figures import figure_of
from services.gateway.charts.fitting import fitted
from services.gateway.charts.theme import PRINT
from services.gateway.pages.comparing.report import report_view
from services.gateway.rendering import html_of
from services.gateway.reports.archive import archive_of
from services.gateway.static_files import shipped_files

_AT_A_TIME = 4
CONTENT_RULES = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser lets the document do: show its own styles."""


async def document_of(status: EvaluationStatus, tables: Tables, pictures: Pictures) -> str:
    """Return the report of an evaluation in `status` with all its `tables`, as an HTML document.

    `pictures` draws its charts; one that cannot be drawn is a sentence that says why.
    """
    # Few at a time, each once: `pictures` refuses when many wait.
    turn = asyncio.Semaphore(_AT_A_TIME)

    async def chart_of(table: Table) -> str:
        async with turn:
            return await figure_of(pictures, table)

    drawn = await asyncio.gather(*map(chart_of, tables.tables))
    charts = {table.name: chart for table, chart in zip(tables.tables, drawn, strict=True)}
    frame = frame_with("tokens", "page", "tables", "analysis", "results", "report")
    return html_of(report_view(status, tables, charts, **frame))


def frame_with(*styles: str) -> dict[str, str]:
    """Return what every report has: these `styles`, its content rules, version and date."""
    files = shipped_files().files
    return {
        "styles": "\n".join(files[f"css/{name}.css"].content.decode() for name in styles),
        "content_rules": CONTENT_RULES,
        "version": version("mlscope"),
        "made_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    }


async def archived(status: EvaluationStatus, tables: Tables, pictures: Pictures) -> bytes:
    """Return the report as a zip archive with its tables and the specifications of its charts.

    `status`, `tables` and `pictures` are as for `document_of`.
    """
    document = await document_of(status, tables, pictures)
    drawn = [table for table in tables.tables if table.chart is not None and table.rows]
    specs = {table.name: spec for table in drawn if (spec := fitted(table, PRINT).spec)}
    return archive_of(tables, document, specs)
