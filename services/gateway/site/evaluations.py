"""The page with the list of evaluations."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.bus_requests import evaluations as ask_evaluations
from services.gateway.pages.evaluations import evaluations_view, search_of
from services.gateway.parameters.query_string import list_of
from services.gateway.parameters.request_values import bus_of
from services.gateway.rendering import rendered


async def evaluations(request: Request) -> Response:
    """GET /evaluations: those that match the query, as in `/api/evaluations`, page by page."""
    search = search_of(request.query_params.multi_items())
    own = {name: getattr(search, name) for name in ("search", "state", "predictions", "sort")}
    window = {"limit": str(search.limit), "offset": str((search.page - 1) * search.limit)}
    command = list_of([*search.filters, *own.items(), *window.items()])
    answer = await ask_evaluations(bus_of(request), command)
    paths = request.app.state.page_paths
    view = evaluations_view(
        answer, search, can_compare="/compare" in paths, can_start="/new" in paths
    )
    return rendered(request, view)
