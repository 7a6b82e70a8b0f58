"""The page that starts evaluations: the form, its check as one types, and the start."""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mlscope.client.asking import ask_for
from mlscope.client.errors import CommandRefused
from schemas.encoding.codec import parse
from schemas.request import Accepted, Evaluate, Match
from schemas.status import Matched
from services.gateway.bodies import form_fields
from services.gateway.bus_requests import status_of
from services.gateway.manifest_texts import manifest_fields
from services.gateway.pages.starting.new import Form, Preview, form_of
from services.gateway.pages.starting.request_form import field_of, values_from, values_of
from services.gateway.parameters.request_values import (
    bus_of,
    checked_evaluation,
    checking_turn_of,
)
from services.gateway.recent_catalog import RecentCatalog
from services.gateway.rendering import rendered

_FIRST = {"scenarios": ["online"], "batch_sizes": ["1"], "trace_level": ["model"]}
"""What an empty form holds: the defaults of a request."""
_MANIFESTS = ("manifest", "dataset_manifest")
"""Fields into which somebody may type a megabyte of YAML."""


async def form(request: Request) -> Response:
    """GET /new: the form, filled by the query, and with `from` by another evaluation's request."""
    query = values_from(request.query_params.multi_items())
    values: dict[str, list[str]] = dict(_FIRST)
    origin = (query.pop("from", None) or [""])[-1]
    if origin:
        status = await status_of(bus_of(request), checked_evaluation(origin))
        if status.request is not None:
            values |= values_of(status.request)
    typed = await _form(request, {**values, **query})
    return await _page(request, typed, {"origin": origin, "nonce": secrets.token_hex(8)})


async def submit(request: Request) -> Response:
    """POST /new: start the evaluations, or with `action=check` show what would happen.

    `action=start:MODEL` starts the model that the page suggests.
    """
    values = values_from(await form_fields(request))
    action, _, suggested = (values.get("action") or [""])[-1].partition(":")
    if suggested:
        values = {**values, "action": [action], "model": [suggested]}
    typed = await _form(request, values)
    nonce, origin = (values.get(name, [""])[-1] for name in ("nonce", "origin"))
    further = {"nonce": nonce, "origin": origin}
    is_check = values.get("action") == ["check"]
    if is_check or typed.faults:
        return await _page(request, typed, further, 200 if is_check else 422)
    previews, faults = await _previews(request, typed.requests)
    waits = all(evaluate.wait_s for evaluate in typed.requests)
    if faults or not (waits or all(preview.can_start for preview in previews)):
        return rendered(request, typed.view(previews, faults=faults, **further), 422)
    started = []
    for evaluate in typed.requests:
        digest = hashlib.sha256(evaluate.model_dump_json().encode()).hexdigest()[:16]
        keyed = evaluate.model_copy(update={"key": f"{nonce or secrets.token_hex(8)}-{digest}"})
        accepted = await ask_for(bus_of(request), keyed, Accepted)
        started.append(accepted.evaluation)
    if len(started) == 1:
        return RedirectResponse(f"/evaluations/{started[0]}", 303)
    return RedirectResponse(f"/compare?runs={','.join(started)}", 303)


async def _form(request: Request, values: Mapping[str, Sequence[str]]) -> Form:
    """Return the form as it was typed; one that nobody touched lacks nothing yet."""
    recent: RecentCatalog = request.app.state.catalog
    catalog = await recent.get(bus_of(request))
    has_manifest = any(any(values.get(name, ())) for name in _MANIFESTS)
    async with checking_turn_of(request) if has_manifest else nullcontext():
        typed = await asyncio.to_thread(form_of, values, catalog, manifest_fields)
    is_untouched = not any(values.get("model", ())) and not values.get("action")
    faults = {n: text for n, text in typed.faults.items() if not (is_untouched and n == "model")}
    return Form(typed.values, typed.offer, typed.requests, faults)


async def _page(
    request: Request, typed: Form, further: Mapping[str, str], status: int = 200
) -> Response:
    previews, faults = await _previews(request, typed.requests)
    view = await asyncio.to_thread(typed.view, previews, faults=faults, **further)
    return rendered(request, view, status)


async def _previews(
    request: Request, requests: Sequence[Evaluate]
) -> tuple[list[Preview], dict[str, str]]:
    """Return who would run each of the requests, and by field why one is refused."""
    previews = await asyncio.gather(*(_preview(request, evaluate) for evaluate in requests))
    faults: dict[str, str] = {}
    for evaluate, preview in zip(requests, previews, strict=True):
        if preview.refused is not None:
            choices = [choice.model_dump() for choice in evaluate.scenarios]
            faults.setdefault(field_of(preview.refused.field, choices), preview.refused.message)
    return previews, faults


def _match_of(evaluate: Evaluate) -> Match:
    return parse(Match, evaluate.model_dump(mode="json"))


async def _preview(request: Request, evaluate: Evaluate) -> Preview:
    model = evaluate.model
    name = model if isinstance(model, str) else f"{model.name}:{model.version}"
    command = await asyncio.to_thread(_match_of, evaluate)
    try:
        matched = await ask_for(bus_of(request), command, Matched)
    except CommandRefused as error:
        return Preview(name, refused=error.refused)
    return Preview(matched.model, matched=matched)
