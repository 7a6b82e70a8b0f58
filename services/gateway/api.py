"""REST: each path sends one command over the bus and answers in JSON."""

import asyncio

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask, ask_for
from mlscope.client.errors import NoSuchTable
from schemas.analysis import Compared
from schemas.encoding.codec import decode_body, parse
from schemas.encoding.errors import MalformedMessage
from schemas.identity import Token
from schemas.request import Accepted, Cancel, Evaluate, Match, ShowCatalog
from schemas.status import Catalog, Matched
from services.gateway.bodies import json_body
from services.gateway.bus_requests import evaluations, status_of, tables_of
from services.gateway.live import live_response
from services.gateway.openapi import document
from services.gateway.query_parameters import (
    JSON,
    check_is_plain,
    figures_of,
    form_of,
    list_of,
)
from services.gateway.responses import as_file, as_json

_TOKEN: TypeAdapter[str] = TypeAdapter(Token)


def bus_of(request: Request) -> Bus:
    """Return the gateway's bus."""
    bus: Bus = request.app.state.bus
    return bus


def evaluation_of(request: Request) -> str:
    """Return the evaluation in the path. Raises MalformedMessage."""
    text = str(request.path_params["evaluation"])
    try:
        return _TOKEN.validate_python(text)
    except ValidationError as error:
        raise MalformedMessage(
            field="evaluation", found=text[:80], expected="1 to 64 of A-Z a-z 0-9 _ -"
        ) from error


async def list_evaluations(request: Request) -> Response:
    """GET /api/evaluations: the newest that match, newest first."""
    command = list_of(request.query_params.multi_items())
    return as_json((await evaluations(bus_of(request), command)).model_dump(mode="json"))


async def evaluate(request: Request) -> Response:
    """POST /api/evaluations: an `Evaluate`; 201 with the id, 200 when its key is known."""
    command = decode_body(Evaluate, await json_body(request))
    accepted = await ask_for(bus_of(request), command, Accepted)
    address = f"/api/evaluations/{accepted.evaluation}"
    status = 200 if accepted.repeated else 201
    return as_json(accepted.model_dump(mode="json"), status, {"Location": address})


async def match(request: Request) -> Response:
    """POST /api/match: a `Match`; who would run it, why others cannot, and the planned runs."""
    command = decode_body(Match, await json_body(request))
    matched = await ask_for(bus_of(request), command, Matched)
    return as_json(matched.model_dump(mode="json"))


async def show(request: Request) -> Response:
    """GET /api/evaluations/{id}: its status."""
    check_is_plain(request.query_params.multi_items())
    status = await status_of(bus_of(request), evaluation_of(request))
    return as_json(status.model_dump(mode="json"))


async def cancel(request: Request) -> Response:
    """DELETE /api/evaluations/{id}: cancel it now; completed measurements are kept."""
    reason = request.query_params.get("reason", "")
    command = Cancel(evaluation=evaluation_of(request), reason=reason)
    return as_json(await ask(bus_of(request), command), 202)


async def events(request: Request) -> Response:
    """GET /api/evaluations/{id}/events: server-sent events."""
    evaluation = evaluation_of(request)
    await status_of(bus_of(request), evaluation)
    return live_response(request.app.state.feeds, request, evaluation)


async def tables(request: Request) -> Response:
    """GET /api/evaluations/{id}/tables: all tables."""
    check_is_plain(request.query_params.multi_items())
    answer = await tables_of(bus_of(request), evaluation_of(request))
    return as_json(answer.model_dump(mode="json"))


async def analyses(request: Request) -> Response:
    """GET /api/evaluations/{id}/analyses: every table without its rows, but with their number."""
    check_is_plain(request.query_params.multi_items())
    answer = await tables_of(bus_of(request), evaluation_of(request))
    summaries = [
        {
            **table.model_dump(mode="json", exclude={"rows"}),
            "rows": answer.total_rows.get(table.name, len(table.rows)),
        }
        for table in answer.tables
    ]
    return as_json({"evaluation": answer.evaluation, "analyses": summaries})


async def show_table(request: Request) -> Response:
    """GET /api/evaluations/{id}/tables/{name}: a table by name or number, as JSON or as a file.

    The format comes from a suffix (one of `FILES`), `?format=` or `Accept: text/csv`.
    """
    name, dot, suffix = str(request.path_params["table"]).rpartition(".")
    if not dot:
        name, suffix = suffix, ""
    query = request.query_params.multi_items()
    form = form_of(suffix, query, request.headers.get("accept", ""))
    answer = await tables_of(bus_of(request), evaluation_of(request), name)
    matching = [table for table in answer.tables if name in (table.name, table.id)]
    if not matching:
        raise NoSuchTable(name, tuple(table.name for table in answer.tables))
    if form != JSON:
        return await asyncio.to_thread(as_file, matching[0], form)
    return as_json(matching[0].model_dump(mode="json"))


async def compare(request: Request) -> Response:
    """GET /api/compare?evaluation=ID&evaluation=ID: the figures of several evaluations."""
    command = figures_of(request.query_params.multi_items())
    compared = await ask_for(bus_of(request), command, Compared, timeout_s=60.0)
    return as_json(compared.model_dump(mode="json"))


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


async def healthy(_: Request) -> Response:
    """GET /healthz: whether this process answers."""
    return as_json({"ok": True})
