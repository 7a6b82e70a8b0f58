"""REST: each path asks one command over the bus and answers in JSON."""

import asyncio
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask, ask_for
from mlscope.client.errors import NoSuchTable
from schemas.analysis import Compared
from schemas.codec import decode_body, parse
from schemas.errors import MalformedMessage
from schemas.identity import Token
from schemas.request import Accepted, Cancel, Evaluate, ShowCatalog
from schemas.status import Catalog
from services.gateway.answers import FILES, as_file, as_json
from services.gateway.asking import evaluations, status_of, tables_of
from services.gateway.bodies import json_body
from services.gateway.constraints import check_has_only, check_is_plain, figures_of, list_of
from services.gateway.live import live_response
from services.gateway.openapi import document

_JSON = "json"
_TOKEN: TypeAdapter[str] = TypeAdapter(Token)


def bus_of(request: Request) -> Bus:
    """Return the gateway's bus."""
    bus: Bus = request.app.state.bus
    return bus


def evaluation_of(request: Request) -> str:
    """Return the evaluation a path names. Raises MalformedMessage."""
    text = str(request.path_params["evaluation"])
    try:
        return _TOKEN.validate_python(text)
    except ValidationError as error:
        raise MalformedMessage(
            field="evaluation", found=text[:80], expected="1 to 64 of A-Z a-z 0-9 _ -"
        ) from error


def _query(request: Request) -> dict[str, Any]:
    return {name: value for name, value in request.query_params.items() if value}


async def list_evaluations(request: Request) -> Response:
    """GET /api/evaluations: the newest that fit, newest first."""
    command = list_of(request.query_params.multi_items())
    return as_json((await evaluations(bus_of(request), command)).model_dump(mode="json"))


async def evaluate(request: Request) -> Response:
    """POST /api/evaluations: an `Evaluate`; 201 with the id, 200 when its key was known."""
    command = decode_body(Evaluate, await json_body(request))
    accepted = await ask_for(bus_of(request), command, Accepted)
    place = f"/api/evaluations/{accepted.evaluation}"
    status = 200 if accepted.repeated else 201
    return as_json(accepted.model_dump(mode="json"), status, {"Location": place})


async def show(request: Request) -> Response:
    """GET /api/evaluations/{id}: where it is."""
    check_is_plain(request.query_params.multi_items())
    status = await status_of(bus_of(request), evaluation_of(request))
    return as_json(status.model_dump(mode="json"))


async def cancel(request: Request) -> Response:
    """DELETE /api/evaluations/{id}: end it now; what was measured is kept."""
    reason = request.query_params.get("reason", "")
    command = Cancel(evaluation=evaluation_of(request), reason=reason)
    return as_json(await ask(bus_of(request), command), 202)


async def events(request: Request) -> Response:
    """GET /api/evaluations/{id}/events: server-sent events."""
    evaluation = evaluation_of(request)
    await status_of(bus_of(request), evaluation)
    return live_response(request.app.state.feeds, request, evaluation)


async def tables(request: Request) -> Response:
    """GET /api/evaluations/{id}/tables: all of them."""
    check_is_plain(request.query_params.multi_items())
    found = await tables_of(bus_of(request), evaluation_of(request))
    return as_json(found.model_dump(mode="json"))


async def analyses(request: Request) -> Response:
    """GET /api/evaluations/{id}/analyses: what every table says, without its rows."""
    check_is_plain(request.query_params.multi_items())
    found = await tables_of(bus_of(request), evaluation_of(request))
    told = [each.model_dump(mode="json", exclude={"rows"}) for each in found.tables]
    rows = {each.name: len(each.rows) for each in found.tables} | found.total_rows
    said = [each | {"rows": rows[each["name"]]} for each in told]
    return as_json({"evaluation": found.evaluation, "analyses": said})


async def table(request: Request) -> Response:
    """GET /api/evaluations/{id}/tables/{name}: one by name or number, as JSON, or as a file.

    A suffix says which (see `FILES`), or `?format=`; CSV comes to `Accept: text/csv` as well.
    """
    name, dot, suffix = str(request.path_params["table"]).rpartition(".")
    if not dot:
        name, suffix = suffix, ""
    form = _form_of(request, suffix)
    found = await tables_of(bus_of(request), evaluation_of(request), name)
    one = next((each for each in found.tables if name in (each.name, each.id)), None)
    if one is None:
        raise NoSuchTable(name, tuple(each.name for each in found.tables))
    if form != _JSON:
        return await asyncio.to_thread(as_file, one, form)
    return as_json(one.model_dump(mode="json"))


def _form_of(request: Request, suffix: str) -> str:
    """Return what a table is asked for as: json, or one of FILES. Raises MalformedMessage."""
    check_has_only("format", request.query_params.multi_items())
    accepted = "csv" if "text/csv" in request.headers.get("accept", "") else _JSON
    asked = request.query_params.get("format", "")
    form = suffix or asked or accepted
    if form != _JSON and form not in FILES:
        raise MalformedMessage(field="format", found=form[:80], expected=", ".join((_JSON, *FILES)))
    if asked not in ("", form):
        raise MalformedMessage(field="format", found=asked[:80], expected=f"{form}, the suffix")
    return form


async def compare(request: Request) -> Response:
    """GET /api/compare?evaluation=ID&evaluation=ID: the figures of several side by side."""
    command = figures_of(request.query_params.multi_items())
    found = await ask_for(bus_of(request), command, Compared, timeout_s=60.0)
    return as_json(found.model_dump(mode="json"))


async def catalog(request: Request) -> Response:
    """GET /api/catalog: what can run where; `kind`, `name`, `version` narrow it down."""
    command = parse(ShowCatalog, _query(request))
    found = await ask_for(bus_of(request), command, Catalog)
    return as_json(found.model_dump(mode="json"))


async def openapi(_: Request) -> Response:
    """GET /api/openapi.json."""
    return as_json(document())


async def healthy(_: Request) -> Response:
    """GET /healthz: this process answers."""
    return as_json({"ok": True})
