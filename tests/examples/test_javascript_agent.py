"""The example of an agent in JavaScript keeps to the contract: its answers, facts and lease."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.encoding.codec import decode_body, encode_body
from schemas.plan import WorkAnswer, WorkOrder
from schemas.run import RunCompleted, RunFailed
from schemas.subjects import agent_command
from tests.places import lent_folder
from tests.services.agent.builders import a_run, a_subject, an_order
from tests.timescale.installing import install

EXAMPLE = Path(__file__).with_name("javascript_agent")
NAME = "javascript"


@dataclass(frozen=True)
class Scheduler:
    """The other side of an agent: sends commands, waits for facts."""

    bus: Bus

    async def command(self, verb: str, body: dict[str, Any] | WorkOrder) -> WorkAnswer:
        """Send a command and return its answer."""
        packed = encode_body(body) if isinstance(body, WorkOrder) else msgpack.packb(body)
        return decode_body(WorkAnswer, await self.bus.ask(agent_command(NAME, verb), packed))

    async def ends(self, order: WorkOrder) -> dict[str, RunCompleted | RunFailed]:
        """Wait until every run of an order ended and return how, by run."""
        async with asyncio.timeout(60):
            while True:
                story = await self.bus.read(f"mlscope.v1.run.{order.evaluation}.>")
                facts = [recorded.fact for recorded in story]
                ends = {f.run: f for f in facts if isinstance(f, RunCompleted | RunFailed)}
                if len(ends) == len(order.runs):
                    return ends
                await asyncio.sleep(0.02)


def key_settings(server: NatsServer, name: str) -> Settings:
    """Return the settings of a connection with a service's key."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


@pytest.fixture(scope="module")
def agent() -> Iterator[NatsServer]:
    """Run a server and the example's agent at it, and lend the server."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    install(EXAMPLE)
    with lent_folder("javascript") as folder, NatsServer(folder) as server:
        asyncio.run(provision(key_settings(server, "provisioner")))
        seed = str(server.seed_files["agent"])
        command = ["node", str(EXAMPLE / "agent.mjs"), server.url, seed]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "agent javascript is announced\n"
            yield server
            process.terminate()
            assert process.wait(20) == 0


@pytest.fixture
async def scheduler(agent: NatsServer) -> AsyncIterator[Scheduler]:
    async with connect(key_settings(agent, "scheduler"), "scheduler") as bus:
        yield Scheduler(bus)


async def is_idle(agent: NatsServer) -> bool:
    """Wait until the agent's lease names no run."""
    async with connect(key_settings(agent, "registry"), "registry") as bus, asyncio.timeout(60):
        while True:
            entry = await bus.get("leases", f"agent-{NAME}")
            if entry and entry.value and json.loads(entry.value)["busy"] == []:
                return True
            await asyncio.sleep(0.02)


def ordered(evaluation: str, *runs: Any, **changes: Any) -> WorkOrder:
    """Return an order for the example's agent; `changes` are of its subject."""
    order = an_order(a_subject().model_copy(update=changes), runs)
    session = order.session.model_copy(update={"agent": NAME})
    return order.model_copy(update={"evaluation": evaluation, "agent": NAME, "session": session})


async def test_its_facts_are_those_of_the_contract(scheduler: Scheduler, agent: NatsServer) -> None:
    order = ordered("js-right", a_run("r0", queries=3), a_run("r1", queries=4, level="none"))
    assert (await scheduler.command("start", order)).accepted
    assert (await scheduler.command("start", order)).accepted
    ends = await scheduler.ends(order)
    completed = [end for end in ends.values() if isinstance(end, RunCompleted)]
    assert [(end.tally.queries, end.tally.spans) for end in completed] == [(3, 3), (4, 0)]
    async with connect(key_settings(agent, "collector"), "collector") as bus:
        queries = [own.fact for own in await bus.read("mlscope.v1.query.js-right.>")]
        traces = [own.fact for own in await bus.read("mlscope.v1.trace.js-right.>")]
    assert [fact.count for fact in queries if isinstance(fact, QueriesAnswered)] == [3, 4]
    assert [fact.count for fact in traces if isinstance(fact, TraceCaptured)] == [3]
    assert await is_idle(agent)


async def test_an_error_of_its_own_ends_its_run_and_no_other(
    scheduler: Scheduler, agent: NatsServer
) -> None:
    model = a_subject().model.model_copy(update={"inputs": ()})
    broken = ordered("js-broken", a_run("r0"), a_run("r1"), model=model)
    await scheduler.command("start", broken)
    failed = [end for end in (await scheduler.ends(broken)).values() if isinstance(end, RunFailed)]
    assert [end.error for end in failed] == ["predict", "predict"]
    assert "undefined" in failed[0].message
    assert await is_idle(agent)


async def test_a_stop_ends_its_run_alone(scheduler: Scheduler) -> None:
    runs = a_run("r0", queries=50_000), a_run("r1", queries=2)
    blocks = a_subject().blocks.model_copy(update={"least": 20})
    order = ordered("js-stopped", *runs, blocks=blocks)
    attempt = {"evaluation": order.evaluation, "run": "r0", "attempt": 1, "reason": "seen enough"}
    refused = await scheduler.command("stop", attempt)
    assert (refused.accepted, refused.error) == (False, "unknown")
    start, stop = scheduler.command("start", order), scheduler.command("stop", attempt)
    assert [answer.accepted for answer in await asyncio.gather(start, stop)] == [True, True]
    ends = await scheduler.ends(order)
    stopped = ends["r0"]
    assert isinstance(stopped, RunFailed)
    assert (stopped.error, stopped.message) == ("stopped", "seen enough")
    assert isinstance(ends["r1"], RunCompleted)


async def test_what_it_does_not_do_is_refused(scheduler: Scheduler) -> None:
    session = {"evaluation": "js-right", "session": "s0"}
    assert (await scheduler.command("close", session)).accepted
    answers = [await scheduler.command(verb, session) for verb in ("finish", "start")]
    assert [answer.accepted for answer in answers] == [False, False]
    assert answers[1].message.startswith("malformed: ")
