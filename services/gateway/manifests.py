"""REST for manifests: models shown, manifests of any kind published and withdrawn."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask_for
from mlscope.client.errors import CommandRefused
from schemas.codec import decode_body, parse
from schemas.manifest import ModelManifest
from schemas.request import CatalogChanged, PublishManifest, Refused, WithdrawManifest
from schemas.status import Catalog
from services.gateway.answers import as_json
from services.gateway.api import bus_of
from services.gateway.asking import models as ask_models
from services.gateway.bodies import json_body


async def models(request: Request) -> Response:
    """GET /api/models: those proposed to people, every version, by name."""
    found = await ask_models(bus_of(request))
    return _as_models(tuple(model for model in found if not model.hidden))


async def model(request: Request) -> Response:
    """GET /api/models/{name}: every version of one, a hidden one too; unknown is 404."""
    name = str(request.path_params["name"])
    found = await ask_models(bus_of(request), name)
    if not found:
        raise CommandRefused(
            Refused(
                error="unknown",
                message=f"no model {name}; GET /api/models lists those there are",
                field="name",
                found=name,
            )
        )
    return _as_models(found)


async def publish(request: Request) -> Response:
    """POST /api/manifests: a `PublishManifest`; 201, or 200 when the very same was known."""
    command = decode_body(PublishManifest, await json_body(request))
    changed = await ask_for(bus_of(request), command, CatalogChanged)
    place = "/api/catalog?" + urlencode({"kind": changed.kind, "name": changed.name})
    status = 200 if changed.repeated else 201
    return as_json(changed.model_dump(mode="json"), status, {"Location": place})


async def withdraw(request: Request) -> Response:
    """DELETE /api/manifests/{kind}/{name}/{version}: nobody finds it from here on."""
    command = parse(WithdrawManifest, dict(request.path_params))
    changed = await ask_for(bus_of(request), command, CatalogChanged)
    return as_json(changed.model_dump(mode="json"))


def _as_models(found: tuple[ModelManifest, ...]) -> Response:
    return as_json(Catalog(models=found).model_dump(mode="json", include={"models"}))
