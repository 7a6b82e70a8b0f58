"""The pages of agents."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import CommandRefused
from schemas.encoding.codec import parse
from schemas.request import ListEvaluations, Refused
from services.gateway.bus_requests import agents as ask_agents
from services.gateway.bus_requests import evaluations, open_evaluations
from services.gateway.pages.catalog.agents import AgentsView, AgentView, agent_rows
from services.gateway.pages.evaluations import evaluation_rows
from services.gateway.rendering import rendered
from services.gateway.request_values import bus_of

_LATEST = 10


async def agents(request: Request) -> Response:
    """GET /agents: the fleet, and what each agent does."""
    bus = bus_of(request)
    fleet, (under_way, _) = await asyncio.gather(ask_agents(bus), open_evaluations(bus))
    return rendered(request, AgentsView(agent_rows(fleet, under_way)))


async def agent(request: Request) -> Response:
    """GET /agents/{agent}: one agent, also one that is gone."""
    bus, name = bus_of(request), str(request.path_params["agent"])
    command = parse(ListEvaluations, {"agents": [name], "limit": _LATEST})
    fleet, (under_way, _), history = await asyncio.gather(
        ask_agents(bus), open_evaluations(bus), evaluations(bus, command)
    )
    for row in agent_rows(fleet, under_way):
        if row.name == name:
            return rendered(request, AgentView(row, evaluation_rows(history.evaluations)))
    message = f"no agent {name}, or it has been gone for long; /agents lists all"
    raise CommandRefused(Refused(error="unknown", message=message, field="agent", found=name))
