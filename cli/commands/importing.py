"""`mlscope import`: a bundle becomes an evaluation like any other.

The importer is an agent that plays back. It announces the machine the bundle comes from, asks
for an evaluation with the bundle's own plan turned into a request, takes the orders that the
scheduler gives that agent, and answers with the facts of the bundle. Scheduler, collector and
analyzer do what they always do, so nothing here writes another's facts. It needs two keys: the
requester's and the agents'.
"""

import argparse
import asyncio
import os
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cli import exits
from cli.commands.bundle import Bundle, read
from cli.commands.foreign import as_bundle
from cli.commands.playback import Playback
from cli.failures import Misused
from cli.progress import ProgressLine
from mlscope.client import AsyncClient, AsyncEvaluation
from mlscope.client.connection import find_settings
from mlscope.load.scenarios import COLD
from mlscope.settings import Settings
from schemas.plan import RunPlan
from schemas.request import Evaluate, ScenarioChoice, SystemNeed
from schemas.status import EvaluationStatus
from services.agent.errors import BundleBroken

_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Keys:
    """Settings of the two connections an import needs."""

    requester: Settings
    agent: Settings


def import_bundle(arguments: argparse.Namespace) -> int:
    """Play a bundle, or another tool's file, back and follow the evaluation to its end."""
    again = f" {secrets.token_hex(8)}" if arguments.again else ""
    with as_bundle(arguments.bundle, arguments.model, arguments.batch_size) as path:
        try:
            bundle = read(path)
        except BundleBroken as error:
            raise Misused(str(error)) from error
        settings = find_settings(os.environ, url=arguments.url, data=arguments.data)
        key = f"import {bundle.evaluation}{again}"
        return asyncio.run(_import(bundle, keys_in(settings, arguments.keys), key))


def keys_in(settings: Settings, folder: str = "") -> Keys:
    """Return settings with `agent.nk` and with `requester.nk` of the folder. Raises Misused."""
    keys = Path(folder) if folder else settings.data_folder / "keys"
    agent, requester = keys / "agent.nk", keys / "requester.nk"
    if not agent.is_file():
        raise Misused(f"{agent}: an import speaks as an agent; --keys names the folder with keys")
    known = requester if requester.is_file() else settings.nats_seed_file
    return Keys(
        requester=replace(settings, nats_seed_file=known),
        agent=replace(settings, nats_seed_file=agent),
    )


async def _import(bundle: Bundle, keys: Keys, key: str) -> int:
    from mlscope.bus.nats import connect

    async with AsyncExitStack() as stack:
        asking = await stack.enter_async_context(connect(keys.requester, "requester"))
        playing = await stack.enter_async_context(connect(keys.agent, "agent"))
        client = AsyncClient(bus=asking)
        await _check_name_is_free(client, bundle)
        playback = Playback(playing, bundle, keys.agent.heartbeat_s, key=key)
        await stack.enter_async_context(playback.present())
        return await _follow(client, request_of(bundle, key), playback)


async def _check_name_is_free(client: AsyncClient, bundle: Bundle) -> None:
    catalog = await client.catalog("agent")
    for agent in catalog.agents:
        if agent.announcement.agent == bundle.agent and agent.state == "live":
            raise Misused(
                f"an agent called {bundle.agent} is live here; plan with another --agent name"
            )


async def _follow(client: AsyncClient, request: Evaluate, playback: Playback) -> int:
    evaluation = await client.evaluate(request)
    playback.expect(evaluation.id)
    print(f"evaluation {evaluation.id}  {evaluation.address}", file=sys.stderr)
    if evaluation.repeated:
        print("this bundle was imported before; --again makes another", file=sys.stderr)
    watching = asyncio.create_task(_watch(evaluation))
    try:
        either: set[asyncio.Future[Any]] = {watching, playback.gap}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not watching.done():
            raise Misused(playback.gap.result())
        status = watching.result()
    except (asyncio.CancelledError, Misused):
        watching.cancel()
        await evaluation.cancel("its import was given up")
        raise
    print(evaluation.id)
    if status.state != "analyzed":
        print(f"{status.state}: {status.cause}", file=sys.stderr)
        return exits.FAILED
    return exits.OK


async def _watch(evaluation: AsyncEvaluation) -> EvaluationStatus:
    with ProgressLine(sys.stderr) as line:
        return await evaluation.follow(line.show)


def request_of(bundle: Bundle, key: str) -> Evaluate:
    """Return the request whose plan is the bundle's: same sessions, groups and runs.

    It is what the plan was made of, with all that a catalog filled in as it was there; of an older
    bundle, which does not hold that, it is what its plan tells. The machine is the one it was.
    """
    subject = bundle.plan.subject
    asked = bundle.request or _told_by(bundle)
    frozen = {
        "model": subject.model,
        "framework": None,
        "dataset": subject.dataset,
        "system": SystemNeed(device=subject.device),
        "agents": (bundle.agent,),
        "spread": "one",
        "scenarios": _scenarios(bundle),
        "options": subject.options,
        "pacing": "local",
        "wait_s": _WAIT_S,
        "key": key,
        "labels": {**asked.labels, "imported": bundle.name, "measured_by": bundle.agent},
        **_of_variants(bundle, asked),
    }
    return asked.model_copy(update=frozen)


def _of_variants(bundle: Bundle, asked: Evaluate) -> dict[str, Any]:
    """Return what asks for a bundle's kinds of sessions alone, where plain ones are not among them.

    Its plan was not made of one request then, but by hand or by a program.
    """
    sessions = [each for each in bundle.plan.sessions if each.variant != "cold"]
    kinds = tuple(dict.fromkeys(each.variant for each in sessions))
    if not kinds or "" in kinds:
        return {}
    return {
        "variants": kinds,
        "serialised": asked.serialised or "serialised" in kinds,
        "trace_level": max(run.level for session in sessions for run in session.runs),
        "levels": (),
    }


def _told_by(bundle: Bundle) -> Evaluate:
    """Return what a plan tells of its request."""
    plan, subject = bundle.plan, bundle.plan.subject
    runs = [run for session in plan.sessions for run in session.runs]
    plain = [each for each in plan.sessions if each.variant in ("", "cold")]
    kinds = dict.fromkeys(each.variant for each in plan.sessions if each.variant != "cold")
    return Evaluate(
        model=subject.model,
        batch_sizes=tuple(dict.fromkeys(session.batch_size for session in plan.sessions)),
        trace_level=max(run.level for run in runs),
        levels=tuple(sorted({run.level for session in plain for run in session.runs})),
        variants=tuple(kinds),
        collectors=subject.collectors,
        serialised=any(session.variant == "serialised" for session in plan.sessions),
        warmup=subject.warmup,
        blocks=subject.blocks,
        outputs=subject.outputs,
        run_timeout_s=max(run.timeout_s for run in runs),
    )


def _scenarios(bundle: Bundle) -> tuple[ScenarioChoice, ...]:
    """Return the scenarios of a plan, in the order asked, with what was filled in.

    An opening of the model is two groups; what follows from the batch size is left to follow.
    """
    found: dict[int, list[RunPlan]] = {}
    openings: Counter[tuple[int, int, int]] = Counter()
    for session in bundle.plan.sessions:
        for run in session.runs:
            if session.variant != "cold":
                found.setdefault(run.group, []).append(run)
            elif run.scenario == COLD:
                found.setdefault(run.group // 2, []).append(run)
                openings[run.group // 2, session.batch_size, run.level] += 1
    counts = {number: count for (number, *_), count in openings.items()}
    choices = []
    for number, runs in sorted(found.items()):
        parameters = _shared(runs)
        if number in counts:
            parameters["queries"] = counts[number]
        choices.append(ScenarioChoice(name=runs[0].scenario, parameters=parameters))
    return tuple(choices)


def _shared(runs: Sequence[RunPlan]) -> dict[str, Any]:
    first, *others = (run.parameters for run in runs)
    return {
        name: value
        for name, value in first.items()
        if all(name in each and each[name] == value for each in others)
    }
