"""REST for prices: what an hour on an agent costs, kept for comparisons of costs."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask_for
from schemas.encoding.errors import MalformedMessage
from schemas.request import ShowCatalog
from schemas.status import Catalog
from services.gateway.bodies import map_in
from services.gateway.bus_requests import price_kept
from services.gateway.parameters.request_values import bus_of
from services.gateway.responses import as_json


async def show(request: Request) -> Response:
    """GET /api/prices: by agent, dollars an hour, who set them ('': the cluster's user), when."""
    catalog = await ask_for(bus_of(request), ShowCatalog(kind="price"), Catalog)
    return as_json(catalog.model_dump(mode="json", include={"prices"}))


async def keep(request: Request) -> Response:
    """PUT /api/prices/{agent}: keep `dollars_per_hour`, also of an agent that is gone."""
    fields = {**await map_in(request), **request.path_params}
    if fields.get("dollars_per_hour") is None:
        expected = "dollars an hour, such as 3.06; DELETE forgets the price"
        raise MalformedMessage(field="dollars_per_hour", found="no value", expected=expected)
    return as_json((await price_kept(bus_of(request), fields)).model_dump(mode="json"))


async def forget(request: Request) -> Response:
    """DELETE /api/prices/{agent}: keep no price of it."""
    return as_json((await price_kept(bus_of(request), request.path_params)).model_dump(mode="json"))
