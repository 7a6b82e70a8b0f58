"""The pages of the catalog's models."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import CommandRefused
from schemas.request import Refused
from services.gateway.bus_requests import models as ask_models
from services.gateway.pages.models import SORTS, Search, model_view, models_view
from services.gateway.rendering import rendered
from services.gateway.request_values import bus_of


async def models(request: Request) -> Response:
    """GET /models: those of the catalog that match `q`, `task`, `framework`, sorted by `sort`."""
    query = request.query_params
    sort, number = query.get("sort", ""), query.get("page", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 6
    search = Search(
        terms=query.get("q", ""),
        task=query.get("task", ""),
        framework=query.get("framework", ""),
        sort=sort if sort in SORTS else "name",
        page=max(1, int(number)) if is_number else 1,
    )
    return rendered(request, models_view(await ask_models(bus_of(request)), search))


async def model(request: Request) -> Response:
    """GET /models/{name}/{version}: one manifest, also a hidden one."""
    name, version = str(request.path_params["name"]), str(request.path_params["version"])
    for manifest in await ask_models(bus_of(request), name):
        if (manifest.name, manifest.version) == (name, version):
            return rendered(request, model_view(manifest))
    message = f"no model {name} {version}; /models lists all"
    raise CommandRefused(Refused(error="unknown", message=message, field="version", found=version))
