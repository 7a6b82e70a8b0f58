"""The page of one evaluation: live during the evaluation, then its record."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mlscope.client.asking import ask
from mlscope.client.errors import ClientError, CommandRefused
from schemas.analysis import Tables
from schemas.request import Cancel
from services.gateway.bodies import form_fields
from services.gateway.bus_requests import headings_of, some_tables_of, status_of
from services.gateway.pages.evaluation import RESULT_TABLES, evaluation_view
from services.gateway.parameters.request_values import bus_of, evaluation_of
from services.gateway.rendering import rendered
from services.gateway.responses import refused_by


async def cancel(request: Request) -> Response:
    """POST /evaluations/{id}/cancel: end it now; its page shows what was measured."""
    evaluation_id = evaluation_of(request)
    reason = dict(await form_fields(request)).get("reason", "").strip() or "cancelled on its page"
    try:
        await ask(bus_of(request), Cancel(evaluation=evaluation_id, reason=reason[:200]))
    except CommandRefused as error:
        if error.refused.error != "conflict":
            raise
    return RedirectResponse(f"/evaluations/{evaluation_id}", 303)


async def evaluation(request: Request) -> Response:
    """GET /evaluations/{id}: its results, runs, live figures, and an index of its analyses."""
    bus = bus_of(request)
    status = await status_of(bus, evaluation_of(request))
    headings = results = Tables(evaluation=status.evaluation, tables=())
    note = ""
    if status.tables:
        names = [name for name in RESULT_TABLES if name in status.tables]
        try:
            headings = await headings_of(bus, status.evaluation)
            results = await some_tables_of(bus, status.evaluation, *names)
        except ClientError as error:
            note = refused_by(error).message
    pages = request.app.state.page_paths
    return rendered(request, evaluation_view(status, headings, results, note=note, pages=pages))
