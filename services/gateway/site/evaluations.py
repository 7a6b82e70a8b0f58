"""The page with the list of evaluations."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from services.gateway.bus_requests import evaluations as ask_evaluations
from services.gateway.pages.evaluations import evaluations_view
from services.gateway.query_parameters import list_of
from services.gateway.rendering import rendered
from services.gateway.request_values import bus_of

_LIST_LIMIT = 100


async def front(_: Request) -> Response:
    """GET /: the list of evaluations."""
    return RedirectResponse("/evaluations", 302)


async def evaluations(request: Request) -> Response:
    """GET /evaluations: the newest that match the query, as in `/api/evaluations`."""
    command = list_of([("limit", str(_LIST_LIMIT)), *request.query_params.multi_items()])
    answer = await ask_evaluations(bus_of(request), command)
    return rendered(request, evaluations_view(answer.evaluations, dict(request.query_params)))
