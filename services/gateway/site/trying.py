"""The page that tries models."""

import asyncio

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mlscope.client.errors import CommandRefused
from schemas.request import Refused
from services.gateway.bodies import MOST_FILES
from services.gateway.pages.starting.sample_choice import MOST_OF_A_DATASET
from services.gateway.pages.starting.trying import try_view
from services.gateway.parameters.request_values import bus_of
from services.gateway.recent_catalog import RecentCatalog
from services.gateway.rendering import rendered
from services.gateway.sample_pictures import pictures_of


async def try_model(request: Request) -> Response:
    """GET /try?model=NAME: files or a text, for this model and others of its task."""
    name = request.query_params.get("model", "").strip()
    if not name:
        return RedirectResponse("/models", 303)
    recent: RecentCatalog = request.app.state.catalog
    catalog = await recent.get(bus_of(request))
    pictures = pictures_of(request)
    with_pictures = await asyncio.to_thread(pictures.among, catalog.datasets, MOST_OF_A_DATASET)
    view = try_view(catalog, name, MOST_FILES, with_pictures)
    if view is None:
        message = f"no model {name}; /models lists all"
        raise CommandRefused(Refused(error="unknown", message=message, field="model", found=name))
    return rendered(request, view)
