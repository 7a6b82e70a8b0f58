"""REST for reports: one evaluation as an HTML document, or a zip archive with its tables."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import CommandRefused
from schemas.analysis import Tables
from schemas.request import Refused
from schemas.status import EvaluationStatus
from services.gateway.bus_requests import status_of, tables_of
from services.gateway.parameters.request_values import bus_of, evaluation_of
from services.gateway.reports.document import CONTENT_RULES, archived, document_of


async def report(request: Request) -> Response:
    """GET /api/evaluations/{id}/report, /evaluations/{id}/report: the document.

    With `download=yes` the browser keeps it as a file.
    """
    status, tables = await _results(request)
    text = await document_of(status, tables, request.app.state.pictures)
    headers = {"Content-Security-Policy": CONTENT_RULES}
    if request.query_params.get("download"):
        name = f"mlscope-{status.evaluation}.html"
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
    if not status.tables:
        message = f"{status.evaluation} is {status.state}: a report needs its analyses"
        raise CommandRefused(Refused(error="conflict", message=message, field="evaluation"))
    return status, await tables_of(bus_of(request), status.evaluation)
