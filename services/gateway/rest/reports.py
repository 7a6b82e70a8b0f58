"""REST for reports: an evaluation as an HTML document or a zip archive, a comparison as HTML."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import CommandRefused
from schemas.analysis import Tables
from schemas.request import Refused
from schemas.status import EvaluationStatus
from services.gateway.bus_requests import compared, condition_table, status_of, tables_of
from services.gateway.pages.comparing.compare import evaluations_of
from services.gateway.parameters.query_string import figures_of
from services.gateway.parameters.request_values import bus_of, evaluation_of
from services.gateway.reports.comparison import Comparison, comparison_document
from services.gateway.reports.document import CONTENT_RULES, archived, document_of


async def report(request: Request) -> Response:
    """GET /api/evaluations/{id}/report, /evaluations/{id}/report: the document.

    With `download=yes` the browser keeps it as a file.
    """
    status, tables = await _results(request)
    text = await document_of(status, tables, request.app.state.pictures)
    return _document(request, text, f"mlscope-{status.evaluation}.html")


async def comparison_report(request: Request) -> Response:
    """GET /api/compare/report?evaluation=ID&evaluation=ID: what compares them, as a document.

    The query is that of `/api/compare`, and `download` as for `report`.
    """
    bus = bus_of(request)
    query = request.query_params.multi_items()
    command = figures_of([pair for pair in query if pair[0] != "download"])
    statuses = await asyncio.gather(*(status_of(bus, name) for name in evaluations_of(command)))
    for status in statuses:
        _check_is_analyzed(status)
    conditions = await asyncio.gather(*(condition_table(bus, status) for status in statuses))
    comparison = Comparison(command, statuses, conditions, await compared(bus, command))
    text = await comparison_document(comparison, request.app.state.pictures)
    return _document(request, text, f"mlscope-{command.first}-{command.second}.html")


def _document(request: Request, text: str, name: str) -> Response:
    headers = {"Content-Security-Policy": CONTENT_RULES}
    if request.query_params.get("download"):
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(text, 200, headers, media_type="text/html; charset=utf-8")


async def report_archive(request: Request) -> Response:
    """GET /api/evaluations/{id}/report.zip: the document, its tables and its charts."""
    status, tables = await _results(request)
    content = await archived(status, tables, request.app.state.pictures)
    name = f"mlscope-{status.evaluation}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, headers, media_type="application/zip")


async def _results(request: Request) -> tuple[EvaluationStatus, Tables]:
    """Return an evaluation and its tables. Raises CommandRefused before it is analyzed."""
    status = await status_of(bus_of(request), evaluation_of(request))
    _check_is_analyzed(status)
    return status, await tables_of(bus_of(request), status.evaluation)


def _check_is_analyzed(status: EvaluationStatus) -> None:
    if not status.tables:
        message = f"{status.evaluation} is {status.state}: a report needs its analyses"
        raise CommandRefused(Refused(error="conflict", message=message, field="evaluation"))
