"""REST for evaluations: match, list, start, show, cancel, and their live events."""

import asyncio
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.asking import ask, ask_for
from mlscope.client.equivalents import equivalents_of
from schemas.encoding.codec import parse
from schemas.request import Accepted, Cancel, Evaluate, Match
from schemas.status import Matched
from services.gateway.bodies import MOST_TYPED_BYTES, command_in
from services.gateway.bus_requests import evaluations, status_of
from services.gateway.live.stream import live_response, overview_response
from services.gateway.parameters.query_string import check_is_plain, list_of
from services.gateway.parameters.request_values import (
    bus_of,
    checking_turn_of,
    evaluation_of,
)
from services.gateway.responses import as_json


async def list_evaluations(request: Request) -> Response:
    """GET /api/evaluations: the newest that match, newest first."""
    command = list_of(request.query_params.multi_items())
    return as_json((await evaluations(bus_of(request), command)).model_dump(mode="json"))


async def evaluate(request: Request) -> Response:
    """POST /api/evaluations: an `Evaluate`; 201 with the id, 200 when its key is known."""
    command = await command_in(request, Evaluate)
    accepted = await ask_for(bus_of(request), command, Accepted)
    address = f"/api/evaluations/{accepted.evaluation}"
    status = 200 if accepted.repeated else 201
    return as_json(accepted.model_dump(mode="json"), status, {"Location": address})


async def match(request: Request) -> Response:
    """POST /api/match: a `Match`; who would run it, why others cannot, and the planned runs."""
    command = await command_in(request, Match)
    matched = await ask_for(bus_of(request), command, Matched)
    return as_json(matched.model_dump(mode="json"))


async def equivalents(request: Request) -> Response:
    """POST /api/equivalents: an `Evaluate` as a command line, a Python program and JSON.

    It is one that somebody has typed: its body has at most `MOST_TYPED_BYTES`.
    """
    command = await command_in(request, Evaluate, MOST_TYPED_BYTES)
    async with checking_turn_of(request):
        written = await asyncio.to_thread(equivalents_of, [command])
    return as_json(asdict(written))


async def show(request: Request) -> Response:
    """GET /api/evaluations/{id}: its status."""
    check_is_plain(request.query_params.multi_items())
    status = await status_of(bus_of(request), evaluation_of(request))
    return as_json(status.model_dump(mode="json"))


async def cancel(request: Request) -> Response:
    """DELETE /api/evaluations/{id}: cancel it now; completed measurements are kept."""
    reason = request.query_params.get("reason", "")
    command = parse(Cancel, {"evaluation": evaluation_of(request), "reason": reason})
    return as_json(await ask(bus_of(request), command), 202)


async def events(request: Request) -> Response:
    """GET /api/evaluations/{id}/events: server-sent events."""
    evaluation = evaluation_of(request)
    await status_of(bus_of(request), evaluation)
    return live_response(request.app.state.feeds, request, evaluation)


async def all_events(request: Request) -> Response:
    """GET /api/events: server-sent events about all evaluations, for an overview."""
    return overview_response(request.app.state.feeds, request)
