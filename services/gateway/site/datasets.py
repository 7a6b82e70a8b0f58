"""The pages of datasets and scenarios."""

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask_for, command_of
from mlscope.client.errors import CommandRefused
from mlscope.load.errors import LoadTooSlow
from mlscope.load.time_limit import in_time
from schemas.manifest import ScenarioManifest
from schemas.request import Refused, ShowCatalog
from schemas.status import Catalog
from services.gateway.pages.catalog.datasets import (
    FEW_SAMPLES,
    MOST_SAMPLES,
    DatasetRow,
    DatasetView,
    datasets_view,
)
from services.gateway.pages.catalog.scenarios import Drawing, drawing_of, scenarios_view
from services.gateway.parameters.request_values import bus_of
from services.gateway.recent_catalog import RecentCatalog
from services.gateway.rendering import rendered
from services.gateway.sample_pictures import pictures_of

_DRAWN_S = 2.0


async def datasets(request: Request) -> Response:
    """GET /datasets: those of the catalog."""
    catalog = await ask_for(bus_of(request), ShowCatalog(kind="dataset"), Catalog)
    pictures = pictures_of(request)
    with_pictures = await asyncio.to_thread(pictures.among, catalog.datasets, FEW_SAMPLES)
    return rendered(request, datasets_view(catalog.datasets, with_pictures))


async def dataset(request: Request) -> Response:
    """GET /datasets/{name}/{version}: one dataset and its first samples."""
    name, version = str(request.path_params["name"]), str(request.path_params["version"])
    command = command_of(ShowCatalog, {"kind": "dataset", "name": name})
    catalog = await ask_for(bus_of(request), command, Catalog)
    for manifest in catalog.datasets:
        if (manifest.name, manifest.version) == (name, version):
            pictures = pictures_of(request)
            with_pictures = await asyncio.to_thread(pictures.among, [manifest], MOST_SAMPLES)
            return rendered(request, DatasetView(DatasetRow(manifest, with_pictures)))
    message = f"no dataset {name} {version}; /datasets lists all"
    raise CommandRefused(Refused(error="unknown", message=message, field="version", found=version))


async def sample(request: Request) -> Response:
    """GET /samples/{sha256}: the picture of a catalog's sample, if the gateway has its file."""
    recent: RecentCatalog = request.app.state.catalog
    catalog = await recent.get(bus_of(request))
    sha256 = str(request.path_params["sha256"])
    picture = await asyncio.to_thread(pictures_of(request).read, catalog.datasets, sha256)
    if picture is None:
        message = "this gateway has no picture of such a sample"
        raise CommandRefused(Refused(error="unknown", message=message))
    content, media_type = picture
    # Its address is that of its content.
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(content, headers=headers, media_type=media_type)


async def scenarios(request: Request) -> Response:
    """GET /scenarios: those of the catalog, with their schedules drawn."""
    catalog = await ask_for(bus_of(request), ShowCatalog(kind="scenario"), Catalog)
    view = await asyncio.to_thread(scenarios_view, catalog.scenarios, _drawn_in_time)
    return rendered(request, view)


def _drawn_in_time(manifest: ScenarioManifest) -> Drawing | None:
    """Return the schedule of a scenario; None if another package does not make one soon."""
    try:
        return in_time(manifest.name, partial(drawing_of, manifest), _DRAWN_S)
    except LoadTooSlow:
        return None
