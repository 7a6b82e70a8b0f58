"""A scheduler among its neighbours, on a memory server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import decode_body, encode_body, parse, unpack
from schemas.message import Command, Message
from schemas.request import (
    Accepted,
    Cancel,
    Evaluate,
    Refused,
    ShowEvaluation,
)
from schemas.status import EvaluationStatus
from schemas.subjects import command_subject, decisions_of
from services.scheduler.placement.fleet import Limits
from services.scheduler.service import serve
from tests.pings import until_answering
from tests.services.scheduler.doubles import ScriptedAgent, neighbours
from tests.services.scheduler.samples import a_dataset, a_model, an_agent

QUICK = Limits(agent_grace_s=0.3, run_grace_s=0.2, lease_ttl_s=0.2, stored_wait_s=0.2)


def quick(**changes: Any) -> Settings:
    """Return settings of a scheduler under test."""
    known: dict[str, Any] = {
        "nats_url": "nats://127.0.0.1:1",
        "gateway_url": "http://gateway",
        "heartbeat_s": 0.05,
        "lease_ttl_s": 0.2,
        "run_silence_s": 1.0,
        "batch_deadline_s": 1.0,
        "max_open_evaluations": 100,
        "max_listed_evaluations": 100,
    }
    return Settings(**(known | changes))


@dataclass
class World:
    """A server and a client on it."""

    client: Bus
    server: MemoryServer = field(default_factory=MemoryServer)

    async def ask(self, command: Command) -> Message:
        """Return the answer to a command as a message."""
        answer = await self.client.ask(command_subject(type(command)), encode_body(command))
        if unpack(answer).get("accepted") is False:
            return decode_body(Refused, answer)
        kind = EvaluationStatus if isinstance(command, ShowEvaluation) else Accepted
        return parse(kind, unpack(answer))

    async def evaluate(self, request: Evaluate) -> str:
        """Return the id of an accepted request."""
        answer = await self.ask(request)
        assert isinstance(answer, Accepted), answer
        return answer.evaluation

    async def cancel(self, evaluation: str) -> Message:
        """Cancel an evaluation."""
        return await self.ask(Cancel(evaluation=evaluation, reason="enough"))

    async def status(self, evaluation: str) -> EvaluationStatus:
        """Return an evaluation's status."""
        answer = await self.ask(ShowEvaluation(evaluation=evaluation))
        assert isinstance(answer, EvaluationStatus), answer
        return answer

    async def becomes(
        self, evaluation: str, *states: str, within_s: float = 10.0
    ) -> EvaluationStatus:
        """Return the status once its state is one of `states`."""
        for _ in range(int(within_s / 0.02)):
            status = await self.status(evaluation)
            if status.state in states:
                return status
            await asyncio.sleep(0.02)
        raise AssertionError(f"not {states}: {status}")

    async def analyzed(self, evaluation: str) -> EvaluationStatus:
        """Return the status once it has tables."""
        for _ in range(1500):
            if (status := await self.status(evaluation)).tables:
                return status
            await asyncio.sleep(0.02)
        raise AssertionError(f"no tables: {status}")

    async def counted(self, evaluation: str) -> None:
        """Wait until every run that was started is counted, and the scheduler has handled that."""
        for _ in range(1500):
            runs = (await self.status(evaluation)).runs
            backlog = await self.client.backlog("scheduler")
            is_handled = not (backlog.waiting or backlog.unsettled)
            if is_handled and all(run.stored for run in runs if run.attempt):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"not counted: {runs}")

    async def decisions(self, evaluation: str) -> list[str]:
        """Return the decisions of an evaluation by name, in order."""
        log = await self.client.read(decisions_of(evaluation))
        return [recorded.fact.happened for recorded in log]

    async def stats(self) -> dict[str, object]:
        """Return what a scheduler tells of itself."""
        told = json.loads(await self.client.ask("$SRV.STATS.scheduler", b""))
        data: dict[str, object] = told["endpoints"][0]["data"]
        return data

    async def an_agent(self, name: str = "a1", **changes: object) -> ScriptedAgent:
        """Return a new agent, in the catalog."""
        agent = ScriptedAgent(self.client, an_agent(name), **changes)  # type: ignore[arg-type]
        await agent.open()
        return agent


@contextlib.asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    """Lend a server with a model, a dataset, a collector and an analyzer."""
    server = MemoryServer()
    async with connect(server, "tester") as client, neighbours(client):
        world = World(client, server)
        model, dataset = a_model(), a_dataset()
        await client.put("catalog", "model_tiny", encode_body(model, json_text=True))
        await client.put("catalog", "dataset_vectors", encode_body(dataset, json_text=True))
        yield world


@contextlib.asynccontextmanager
async def scheduling(
    world: World, limits: Limits = QUICK, settings: Settings | None = None
) -> AsyncIterator[None]:
    """Run a scheduler for the time of a block; it answers when the block begins."""
    stop = asyncio.Event()
    async with connect(world.server, "scheduler") as bus:
        task = asyncio.create_task(serve(bus, settings or quick(), stop, limits))
        await until_answering(bus, "scheduler")
        yield
        stop.set()
        await task
