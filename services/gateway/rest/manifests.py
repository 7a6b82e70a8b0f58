"""REST for manifests: shows models, publishes and withdraws manifests of any kind."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask_for
from mlscope.client.errors import CommandRefused
from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.fitting import alike, running_of
from mlscope.manifests.reading import kinds, read_manifest_text
from mlscope.manifests.sent import SentFile, with_sent_files
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.publishing import CatalogChanged, PublishManifest, WithdrawManifest
from schemas.request import (
    Refused,
)
from services.gateway.bodies import command_in, map_in
from services.gateway.bus_requests import agents, models
from services.gateway.manifest_texts import placed_in
from services.gateway.parameters.request_values import bus_of, checking_turn_of
from services.gateway.responses import as_json
from services.gateway.running_models import RunningModels, models_answer


async def show_models(request: Request) -> Response:
    """GET /api/models: every version of every model that is not hidden, by name.

    `running` says for each where it runs or what is missing; with `runnable=true` the models are
    those that an agent can open as it is.
    """
    running_models: RunningModels = request.app.state.running_models
    now = await running_models.get(bus_of(request))
    is_narrowed = request.query_params.get("runnable", "") == "true"
    return Response(now.runnable if is_narrowed else now.shown, media_type="application/json")


async def show_model(request: Request) -> Response:
    """GET /api/models/{name}: every version of a model, also a hidden one; 404 if unknown."""
    name = str(request.path_params["name"])
    bus = bus_of(request)
    versions, fleet = await asyncio.gather(models(bus, name), agents(bus))
    if not versions:
        raise CommandRefused(
            Refused(
                error="unknown",
                message=f"no model {name}; GET /api/models lists all",
                field="name",
                found=name,
            )
        )
    groups = alike(fleet)
    return as_json(models_answer([(model, running_of(model, groups)) for model in versions]))


async def publish(request: Request) -> Response:
    """POST /api/manifests: a `PublishManifest`; 201, or 200 when the same one is known."""
    command = await command_in(request, PublishManifest)
    changed = await ask_for(bus_of(request), command, CatalogChanged)
    address = "/api/catalog?" + urlencode({"kind": changed.kind, "name": changed.name})
    status = 200 if changed.repeated else 201
    return as_json(changed.model_dump(mode="json"), status, {"Location": address})


async def check(request: Request) -> Response:
    """POST /api/manifests/check: the faults of the YAML `text` of a manifest, each with its line.

    `kind` is its kind where the text has none, as `model`. Of a model, `files` by name, each with
    the `address` and `sha256` that POST /api/files answered, are written into the `manifest` and
    the `text` of the answer; `unused` files it does not name, and `lacking` ones it names are
    neither sent nor on the web. Nothing is published.
    """
    body = await map_in(request)
    files = _sent_files_in(body)
    text, kind = body.get("text"), body.get("kind", "")
    if not isinstance(text, str) or kind not in ("", *kinds()):
        field, allowed = ("kind", ", ".join(kinds())) if isinstance(text, str) else ("text", "YAML")
        raise MalformedMessage(field=field, found=repr(body.get(field))[:80], expected=allowed)
    try:
        async with checking_turn_of(request):
            manifest = await asyncio.to_thread(read_manifest_text, text, "manifest", kind)
    except ManifestFaulty as error:
        return as_json({"faults": [asdict(fault) for fault in error.faults]})
    answer: dict[str, Any] = {
        "kind": manifest.kind,
        "name": manifest.name,
        "version": manifest.version,
    }
    if manifest.kind == "model":
        placed = with_sent_files(manifest.model_dump(mode="json", exclude_unset=True), files)
        async with checking_turn_of(request):
            placed_text = await asyncio.to_thread(placed_in, text, kind, placed.manifest)
        answer |= {"manifest": placed.manifest, "text": placed_text}
        answer |= {"unused": placed.unused, "lacking": placed.lacking}
    return as_json({"faults": [], **answer})


def _sent_files_in(body: Mapping[str, Any]) -> dict[str, SentFile]:
    """Return the files in a body, by name. Raises MalformedMessage."""
    files = {} if body.get("files") is None else body["files"]
    try:
        return {
            name: SentFile(str(file["address"]), str(file["sha256"]))
            for name, file in files.items()
        }
    except (AttributeError, KeyError, TypeError):
        expected = "a map of files by name, each a map with address and sha256"
        raise MalformedMessage(field="files", found=repr(files)[:80], expected=expected) from None


async def withdraw(request: Request) -> Response:
    """DELETE /api/manifests/{kind}/{name}/{version}: remove it from the catalog."""
    command = parse(WithdrawManifest, dict(request.path_params))
    changed = await ask_for(bus_of(request), command, CatalogChanged)
    return as_json(changed.model_dump(mode="json"))
