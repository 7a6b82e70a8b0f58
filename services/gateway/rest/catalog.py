"""REST for the catalog and for the service itself: agents, manifests, OpenAPI, health."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import answer_as, answer_body, answer_in
from schemas.encoding.codec import is_json, parse
from schemas.request import ShowCatalog
from schemas.status import Catalog
from services.gateway.openapi import document
from services.gateway.parameters.request_values import bus_of
from services.gateway.responses import as_json

_HEAD_BYTES = 64
"""The start of an answer, which says whether it is a refusal."""


async def catalog(request: Request) -> Response:
    """GET /api/catalog: agents and manifests, optionally of a `kind`, `name`, `version`.

    The registry's JSON is passed on: reading and writing that of 1,000 agents takes a second.
    """
    command = parse(
        ShowCatalog, {name: value for name, value in request.query_params.items() if value}
    )
    body = await answer_body(bus_of(request), command, json_text=True)
    if is_json(body) and b'"accepted"' not in body[:_HEAD_BYTES]:
        return Response(body, media_type="application/json")
    answer = answer_as(Catalog, command, answer_in(command, body))
    return as_json(answer.model_dump(mode="json"))


async def openapi(_: Request) -> Response:
    """GET /api/openapi.json."""
    return as_json(document())


async def healthy(request: Request) -> Response:
    """GET /healthz: whether this gateway answers a question over the bus; 503 if not."""
    is_ready = await request.app.state.readiness.is_ready()
    return as_json({"ok": is_ready}, 200 if is_ready else 503)
