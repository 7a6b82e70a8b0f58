"""The page of frameworks."""

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.pages.catalog.frameworks import frameworks_view
from services.gateway.parameters.request_values import bus_of
from services.gateway.rendering import rendered


async def frameworks(request: Request) -> Response:
    """GET /frameworks: builds, the agents that have them, options, and how to install them."""
    catalog = await request.app.state.catalog.get(bus_of(request))
    return rendered(request, frameworks_view(catalog))
