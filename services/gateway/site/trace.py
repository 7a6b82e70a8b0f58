"""The page of a trace: one run of an evaluation on a timeline."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.bus_requests import status_of
from services.gateway.pages.trace import trace_view
from services.gateway.rendering import rendered
from services.gateway.request_values import bus_of, evaluation_of


async def trace(request: Request) -> Response:
    """GET /evaluations/{id}/trace: the run that `run` names, else the one with most spans."""
    status = await status_of(bus_of(request), evaluation_of(request))
    return rendered(request, trace_view(status, request.query_params.get("run", "")))
