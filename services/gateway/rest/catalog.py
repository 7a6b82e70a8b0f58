"""REST for the catalog and for the service itself: agents, manifests, OpenAPI, health."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask_for
from schemas.encoding.codec import parse
from schemas.request import ShowCatalog
from schemas.status import Catalog
from services.gateway.openapi import document
from services.gateway.parameters.request_values import bus_of
from services.gateway.responses import as_json


async def catalog(request: Request) -> Response:
    """GET /api/catalog: agents and manifests, optionally of a `kind`, `name`, `version`."""
    command = parse(
        ShowCatalog, {name: value for name, value in request.query_params.items() if value}
    )
    answer = await ask_for(bus_of(request), command, Catalog)
    return as_json(answer.model_dump(mode="json"))


async def openapi(_: Request) -> Response:
    """GET /api/openapi.json."""
    return as_json(document())


async def healthy(request: Request) -> Response:
    """GET /healthz: whether this gateway answers a question over the bus; 503 if not."""
    is_ready = await request.app.state.readiness.is_ready()
    return as_json({"ok": is_ready}, 200 if is_ready else 503)
