"""The pages of agents."""

import asyncio
import time
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mlscope.client.errors import CommandRefused
from mlscope.client.prices import kept_prices
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.request import ListEvaluations, Refused
from services.gateway.bodies import form_fields
from services.gateway.bus_requests import agents as ask_agents
from services.gateway.bus_requests import evaluations, open_evaluations, price_kept
from services.gateway.pages.catalog.agent_use import COUNTED, use_of
from services.gateway.pages.catalog.agents import AgentsView, AgentView, agent_rows
from services.gateway.pages.evaluations import evaluation_rows
from services.gateway.parameters.request_values import bus_of
from services.gateway.rendering import rendered

_LATEST = 10


async def agents(request: Request) -> Response:
    """GET /agents: the fleet, and what each agent does."""
    bus = bus_of(request)
    fleet, (under_way, _) = await asyncio.gather(ask_agents(bus), open_evaluations(bus))
    return rendered(request, AgentsView(agent_rows(fleet, under_way)))


async def agent(request: Request) -> Response:
    """GET /agents/{agent}: one agent, also one that is gone."""
    bus, name = bus_of(request), str(request.path_params["agent"])
    command = parse(ListEvaluations, {"agents": [name], "limit": COUNTED})
    fleet, (under_way, _), history = await asyncio.gather(
        ask_agents(bus), open_evaluations(bus), evaluations(bus, command)
    )
    for row in agent_rows(fleet, under_way):
        if row.name == name:
            rows = evaluation_rows(history.evaluations[:_LATEST])
            use = use_of(history.evaluations, time.time_ns())
            view = AgentView(row, rows, (await kept_prices(bus)).get(name), use)
            return rendered(request, view)
    message = f"no agent {name}, or it has been gone for long; /agents lists all"
    raise CommandRefused(Refused(error="unknown", message=message, field="agent", found=name))


async def price(request: Request) -> Response:
    """POST /agents/{agent}/price: keep `dollars` an hour; an empty field forgets the price."""
    name = str(request.path_params["agent"])
    dollars = dict(await form_fields(request)).get("dollars", "").strip()
    fields: dict[str, object] = {"agent": name}
    if dollars:
        try:
            fields["dollars_per_hour"] = float(dollars)
        except ValueError:
            expected = "dollars an hour, such as 3.06"
            raise MalformedMessage(field="dollars", found=dollars[:80], expected=expected) from None
    await price_kept(bus_of(request), fields)
    return RedirectResponse(f"/agents/{quote(name, safe='')}#price", 303)
