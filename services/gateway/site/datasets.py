"""The pages of datasets and scenarios."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask_for
from mlscope.client.errors import CommandRefused
from schemas.request import Refused, ShowCatalog
from schemas.status import Catalog
from services.gateway.pages.catalog.datasets import DatasetRow, DatasetView, datasets_view
from services.gateway.pages.catalog.scenarios import scenarios_view
from services.gateway.parameters.request_values import bus_of
from services.gateway.rendering import rendered


async def datasets(request: Request) -> Response:
    """GET /datasets: those of the catalog."""
    catalog = await ask_for(bus_of(request), ShowCatalog(kind="dataset"), Catalog)
    return rendered(request, datasets_view(catalog.datasets))


async def dataset(request: Request) -> Response:
    """GET /datasets/{name}/{version}: one dataset and its first samples."""
    name, version = str(request.path_params["name"]), str(request.path_params["version"])
    catalog = await ask_for(bus_of(request), ShowCatalog(kind="dataset", name=name), Catalog)
    for manifest in catalog.datasets:
        if (manifest.name, manifest.version) == (name, version):
            return rendered(request, DatasetView(DatasetRow(manifest)))
    message = f"no dataset {name} {version}; /datasets lists all"
    raise CommandRefused(Refused(error="unknown", message=message, field="version", found=version))


async def scenarios(request: Request) -> Response:
    """GET /scenarios: those of the catalog, with their schedules drawn."""
    catalog = await ask_for(bus_of(request), ShowCatalog(kind="scenario"), Catalog)
    return rendered(request, scenarios_view(catalog.scenarios))
