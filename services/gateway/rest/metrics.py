"""`/metrics` and `/api/status`: how the cluster stands, for Prometheus and for programs."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.metrics.exposition import CONTENT_TYPE, exposition
from services.gateway.pages.status import StatusView
from services.gateway.responses import as_json


async def metrics(request: Request) -> Response:
    """GET /metrics: the figures of every service, in Prometheus' text format."""
    standing = await request.app.state.standing.current()
    return Response(exposition(standing), headers={"Content-Type": CONTENT_TYPE})


async def status(request: Request) -> Response:
    """GET /api/status: each instance of a service, and what durables have still to do."""
    view = StatusView(await request.app.state.standing.current())
    return as_json(view.as_data())
