"""`mlscope import`: a bundle becomes an evaluation like any other.

The importer is an agent that plays back recorded facts. It announces the machine that the bundle
comes from, requests an evaluation with the bundle's own plan, accepts the orders that the
scheduler sends to that agent, and answers with the bundle's facts. Scheduler, collector and
analyzer work as always, so the importer writes no fact of another service. It needs two keys: the
requester's and the agents'.
"""

import argparse
import asyncio
import os
import secrets
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cli import exits
from cli.failures import Misused
from cli.offline.bundle import Bundle, read
from cli.offline.bundle_request import request_of
from cli.offline.foreign import as_bundle
from cli.offline.playback import Playback
from cli.printing.progress import ProgressLine
from mlscope.client import AsyncClient
from mlscope.client.asynchronous import AsyncEvaluation
from mlscope.client.connection import find_settings
from mlscope.client.errors import EvaluationRefused
from mlscope.exchange.errors import BundleBroken
from mlscope.settings import Settings
from schemas.request import Evaluate
from schemas.status import EvaluationStatus

_LEAVING_LOOKS, _LEAVING_POLL_S = 20, 0.25
_REPEATED = "this bundle was imported before; --again imports it as a new evaluation"


@dataclass(frozen=True, slots=True)
class Keys:
    """Settings of the two connections that an import needs."""

    requester: Settings
    agent: Settings


def import_bundle(arguments: argparse.Namespace) -> int:
    """Play a bundle, or another tool's trace, back and follow the evaluation to its end."""
    suffix = f" {secrets.token_hex(8)}" if arguments.again else ""
    names = {name: getattr(arguments, name) for name in ("model", "framework", "device")}
    with as_bundle(arguments.bundle, batch_size=arguments.batch_size, **names) as path:
        try:
            bundle = read(path)
        except BundleBroken as error:
            raise Misused(str(error)) from error
        settings = find_settings(os.environ, url=arguments.url, data=arguments.data)
        key = f"import {bundle.evaluation}{suffix}"
        evaluation, status = asyncio.run(imported(bundle, keys_in(settings, arguments.keys), key))
    if evaluation.repeated:
        print(_REPEATED, file=sys.stderr)
    print(evaluation.id)
    if status.state != "analyzed":
        print(f"{status.state}: {status.cause}", file=sys.stderr)
        return exits.FAILED
    return exits.OK


def keys_in(settings: Settings, folder: str = "") -> Keys:
    """Return settings with the folder's `agent.nk` and `requester.nk`. Raises Misused."""
    keys = Path(folder) if folder else settings.data_folder / "keys"
    agent, requester = keys / "agent.nk", keys / "requester.nk"
    if not agent.is_file():
        raise Misused(f"{agent}: no such file; --keys FOLDER names the folder with the agents' key")
    requester_seed = requester if requester.is_file() else settings.nats_seed_file
    return Keys(
        requester=replace(settings, nats_seed_file=requester_seed),
        agent=replace(settings, nats_seed_file=agent),
    )


async def imported(
    bundle: Bundle, keys: Keys, key: str
) -> tuple[AsyncEvaluation, EvaluationStatus]:
    """Play a `bundle` back over connections with `keys`; return its evaluation and how it ended.

    `key` is that of the request: a second import under it is the same evaluation. Raises Misused.
    """
    from mlscope.bus.nats import connect

    async with AsyncExitStack() as stack:
        requester_bus = await stack.enter_async_context(connect(keys.requester, "requester"))
        agent_bus = await stack.enter_async_context(connect(keys.agent, "agent"))
        client = AsyncClient(bus=requester_bus)
        if not await _has_left(client, bundle.agent):
            raise Misused(
                f"an agent called {bundle.agent} is live here; plan with another --agent name"
            )
        playback = Playback(agent_bus, bundle, keys.agent.heartbeat_s, key=key)
        await stack.enter_async_context(playback.present())
        return await follow_import(client, request_of(bundle, key), playback)


async def _has_left(client: AsyncClient, agent: str) -> bool:
    """Return whether no `agent` of this name is live, or its announced end is heard of soon.

    Another import may have ended just now.
    """
    for _ in range(_LEAVING_LOOKS):
        agents = (await client.catalog("agent")).agents
        if not any(own.announcement.agent == agent and own.state == "live" for own in agents):
            return True
        await asyncio.sleep(_LEAVING_POLL_S)
    return False


async def follow_import(
    client: AsyncClient, request: Evaluate, playback: Playback
) -> tuple[AsyncEvaluation, EvaluationStatus]:
    """Ask for the evaluation of a bundle, play it back, and return it and how it ended.

    `client` sends the `request`; `playback` answers as the bundle's agent. Raises Misused.
    """
    try:
        evaluation = await client.evaluate(request)
    except EvaluationRefused as error:
        if error.error != "conflict":
            raise
        raise Misused(f"{_REPEATED} ({error})") from error
    playback.expect(evaluation.id)
    print(f"evaluation {evaluation.id}  {evaluation.address}", file=sys.stderr)
    try:
        with ProgressLine(sys.stderr) as line:
            watching = asyncio.create_task(evaluation.follow(line.show))
            first: set[asyncio.Future[Any]] = {watching, playback.gap}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not watching.done():
            raise Misused(playback.gap.result())
        return evaluation, watching.result()
    except (asyncio.CancelledError, Misused):
        watching.cancel()
        await evaluation.cancel("the import was abandoned")
        raise
