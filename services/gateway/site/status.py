"""The page of the cluster's own state."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.pages.status import StatusView
from services.gateway.rendering import rendered


async def status(request: Request) -> Response:
    """GET /status: each service with its instances, and what durables have still to do."""
    return rendered(request, StatusView(await request.app.state.standing.current()))
