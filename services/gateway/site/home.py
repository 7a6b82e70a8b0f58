"""The first page."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.bus_requests import overview_of
from services.gateway.pages.home import HomeView
from services.gateway.rendering import rendered
from services.gateway.request_values import bus_of


async def home(request: Request) -> Response:
    """GET /: what runs now, the fleet, regressions, and the latest evaluations."""
    paths = request.app.state.page_paths
    view = HomeView(
        await overview_of(bus_of(request)),
        can_compare="/compare" in paths,
        can_start="/new" in paths,
        shows_agents="/agents" in paths,
    )
    return rendered(request, view)
