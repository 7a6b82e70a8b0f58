"""The page of one evaluation: live during the evaluation, then its record."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mlscope.client.asking import ask
from mlscope.client.errors import ClientError, CommandRefused
from schemas.analysis import Tables
from schemas.request import Cancel
from services.gateway.bodies import form_fields
from services.gateway.bus_requests import first_rows_of, status_of
from services.gateway.pages.evaluation import evaluation_view
from services.gateway.rendering import rendered
from services.gateway.request_values import bus_of, evaluation_of
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
    """GET /evaluations/{id}: its state, request, runs and tables."""
    status = await status_of(bus_of(request), evaluation_of(request))
    tables = Tables(evaluation=status.evaluation, tables=())
    note = ""
    if status.tables:
        try:
            tables = await first_rows_of(bus_of(request), status.evaluation)
        except ClientError as error:
            note = refused_by(error).message
    return rendered(request, evaluation_view(status, tables, note))
