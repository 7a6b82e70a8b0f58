"""The scheduler with the registry on a real nats-server, each with its own key."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus import nats
from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict
from mlscope.bus.records import ReceivedCommand
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.agent import AgentAnnounced, Lease
from schemas.batch import QueriesAnswered
from schemas.encoding.codec import decode_body, encode_body, unpack
from schemas.evaluation import EvaluationCancelled
from schemas.message import derived_id
from schemas.plan import WorkAnswer, WorkOrder
from schemas.run import ClockOrigin, Conditions, RunCompleted, RunReady, Tally
from schemas.subjects import agent_command, decisions_of
from services.registry.service import serve as serve_registry
from services.scheduler.evaluation.index import digest_of_log
from services.scheduler.service import serve as serve_scheduler
from tests.services.scheduler.doubles import analyze, collect
from tests.services.scheduler.samples import an_agent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, few_manifests: Path) -> Iterator[NatsServer]:
    """Run a provisioned nats-server of this module's own, for services with few manifests."""
    with pytest.MonkeyPatch.context() as patch, NatsServer(tmp_path_factory.mktemp("nats")) as lent:
        patch.setenv("MLSCOPE_MANIFESTS", str(few_manifests))
        asyncio.run(provision(settings(lent, "provisioner")))
        yield lent


def settings(server: NatsServer, name: str) -> Settings:
    """Return the settings of a service."""
    return Settings.read(environ(server, name))


def environ(server: NatsServer, name: str) -> dict[str, str]:
    """Return the variables of a service."""
    return {
        "MLSCOPE_NATS_URL": server.url,
        "MLSCOPE_NATS_SEED_FILE": str(server.seed_files[name]),
        "MLSCOPE_HEARTBEAT_S": "0.5",
        "MLSCOPE_LEASE_TTL_S": "3",
        "MLSCOPE_MANIFESTS": os.environ["MLSCOPE_MANIFESTS"],
    }


ROOT = Path(__file__).resolve().parents[3]


async def test_a_conflict_tells_where_decisions_stand(server: NatsServer) -> None:
    fact = EvaluationCancelled(evaluation="unread", reason="")
    async with nats.connect(settings(server, "scheduler"), "scheduler") as bus:
        await bus.publish_live("mlscope.v1.evaluation.unread.paused", b"from the future")
        guard = decisions_of("unread")
        with pytest.raises(Conflict) as conflict:
            await bus.publish(fact, id="c1", expected=(guard, 0))
        last = await bus.publish(fact, id="c2", expected=(guard, conflict.value.actual))
    assert 0 < conflict.value.actual < last


class RemoteAgent:
    """An agent that says it is ready, answers queries, and completes when told to finish."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.name = name
        self.queries: list[dict[str, Any]] = []
        self.orders: list[WorkOrder] = []
        self.answers = True
        self._bus = bus

    async def open(self) -> None:
        """Announce itself, hold a lease, answer."""
        announcement = an_agent(self.name).announcement
        await self._renew()
        await self._bus.answer(agent_command(self.name, "*"), self._answer, queue=None)
        fact = AgentAnnounced(agent=self.name, announcement=announcement)
        await self._bus.publish(fact, id=derived_id(self.name, "announced"))

    async def _renew(self) -> None:
        incarnation = an_agent(self.name).announcement.incarnation
        lease = Lease(holder=self.name, incarnation=incarnation)
        await self._bus.put("leases", f"agent-{self.name}", encode_body(lease, json_text=True))

    async def live(self) -> None:
        """Renew the lease for ever."""
        while True:
            await self._renew()
            await asyncio.sleep(1.0)

    async def _answer(self, asked: ReceivedCommand) -> bytes:
        verb = asked.subject.rsplit(".", 1)[-1]
        if verb == "query":
            return self._query(unpack(asked.body))
        if verb == "start":
            await self._start(decode_body(WorkOrder, asked.body))
        elif verb == "finish":
            await self._finish(unpack(asked.body))
        return encode_body(WorkAnswer(accepted=True))

    def _query(self, query: dict[str, Any]) -> bytes:
        self.queries.append(query)
        told = {"query": query["query"], "status": 0, "service_ns": 5, "error": ""}
        packed: bytes = msgpack.packb(told)
        return packed

    async def _start(self, order: WorkOrder) -> None:
        if (order.evaluation, order.attempt) in [(o.evaluation, o.attempt) for o in self.orders]:
            return
        self.orders.append(order)
        for run in order.runs:
            ready = RunReady(
                evaluation=order.evaluation, run=run, attempt=order.attempt, agent=self.name
            )
            cause = f"{order.evaluation}/{run}/{order.attempt}"
            await self._bus.publish(ready, id=derived_id(cause, "ready"))

    async def _finish(self, body: dict[str, Any]) -> None:
        counted = ("query_batches", "queries", "failed_queries")
        done = RunCompleted(
            evaluation=body["evaluation"],
            run=body["run"],
            attempt=body["attempt"],
            agent=self.name,
            tally=Tally(**{each: body[each] for each in counted}),
            origin=ClockOrigin(monotonic_ns=1, epoch_start_ns=1),
            conditions=Conditions(),
        )
        cause = f"{body['evaluation']}/{body['run']}/{body['attempt']}"
        await self._bus.publish(done, id=derived_id(cause, "completed"))


@contextlib.asynccontextmanager
async def agent_of(server: NatsServer, name: str) -> AsyncIterator[RemoteAgent]:
    """Run an agent for the time of a block."""
    async with nats.connect(settings(server, "agent"), "agent") as bus:
        agent = RemoteAgent(bus, name)
        await agent.open()
        living = asyncio.create_task(agent.live())
        yield agent
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)


@contextlib.asynccontextmanager
async def neighbourhood(server: NatsServer) -> AsyncIterator[Bus]:
    """Run a registry, a collector's and an analyzer's stand-in; lend a requester's bus."""
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        buses = {
            name: await stack.enter_async_context(nats.connect(settings(server, name), name))
            for name in ("registry", "collector", "analyzer", "requester")
        }
        tasks = [
            asyncio.create_task(
                serve_registry(buses["registry"], settings(server, "registry"), stop)
            ),
            asyncio.create_task(collect(buses["collector"])),
            asyncio.create_task(analyze(buses["analyzer"])),
        ]
        yield buses["requester"]
        stop.set()
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)


@contextlib.asynccontextmanager
async def scheduler(server: NatsServer) -> AsyncIterator[None]:
    """Run a scheduler in this process."""
    stop = asyncio.Event()
    async with nats.connect(settings(server, "scheduler"), "scheduler") as bus:
        task = asyncio.create_task(serve_scheduler(bus, settings(server, "scheduler"), stop))
        yield
        stop.set()
        await task


@contextlib.asynccontextmanager
async def scheduler_process(server: NatsServer) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a scheduler as a process of its own, to be killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli.main",
        "serve",
        "scheduler",
        env=dict(os.environ) | environ(server, "scheduler"),
        cwd=ROOT,
    )
    yield process
    if process.returncode is None:
        process.terminate()
    await process.wait()


def a_request(agent: str, queries: int = 30, **changes: Any) -> bytes:
    """Return a request for a remote load, in JSON."""
    load = {"name": "fixed_rate", "parameters": {"rate_hz": 100, "queries": queries}}
    known = {"model": "identity", "scenarios": [load], "agents": [agent], "wait_s": 30}
    return json.dumps(known | changes).encode()


async def accepted(client: Bus, request: bytes) -> str:
    """Return the id of a request that is accepted, once somebody answers."""
    for _ in range(200):
        with contextlib.suppress(Exception):
            told = json.loads(await client.ask("mlscope.v1.request.evaluate", request))
            assert told["accepted"], told
            return str(told["evaluation"])
        await asyncio.sleep(0.05)
    raise AssertionError("nobody accepts")


async def becomes(client: Bus, evaluation: str, state: str) -> dict[str, Any]:
    """Return an evaluation's status once it is in a state."""
    told: dict[str, Any] = {}
    for _ in range(600):
        with contextlib.suppress(Exception):
            body = json.dumps({"evaluation": evaluation}).encode()
            told = json.loads(await client.ask("mlscope.v1.request.evaluation", body))
            if told.get("state") == state:
                return told
        await asyncio.sleep(0.05)
    raise AssertionError(f"not {state}: {told}")


async def log_of(server: NatsServer, filter_subject: str) -> list[Any]:
    """Read facts with the scheduler's key."""
    async with nats.connect(settings(server, "scheduler"), "scheduler") as bus:
        return await bus.read(filter_subject)


async def test_a_remote_load_is_issued_recorded_and_finished(server: NatsServer) -> None:
    async with neighbourhood(server) as client, agent_of(server, "r1") as agent, scheduler(server):
        evaluation = await accepted(client, a_request("r1"))
        told = await becomes(client, evaluation, "analyzed")
        async with nats.connect(settings(server, "collector"), "collector") as bus:
            batches = await bus.read(f"mlscope.v1.query.{evaluation}.>")
    assert sorted(query["query"] for query in agent.queries) == list(range(30))
    assert told["runs"][0]["answered"] == 30
    said = [batch.fact for batch in batches if isinstance(batch.fact, QueriesAnswered)]
    assert {batch.agent for batch in said} == {"scheduler"}
    assert [batch.sequence for batch in said] == list(range(len(said)))
    assert sum(batch.count for batch in said) == 30


async def test_two_schedulers_issue_a_load_once(server: NatsServer) -> None:
    async with neighbourhood(server) as client, agent_of(server, "r2") as agent:
        async with scheduler(server), scheduler(server):
            ids = [await accepted(client, a_request("r2", 5)) for _ in range(4)]
            for evaluation in ids:
                await becomes(client, evaluation, "analyzed")
        for evaluation in ids:
            decided = [r.fact.happened for r in await log_of(server, decisions_of(evaluation))]
            assert decided.count("issued") == 1
            assert decided.count("started") == 1
    assert len(agent.queries) == 4 * 5


async def test_a_killed_schedulers_load_is_repeated_by_another(server: NatsServer) -> None:
    """The claim outlives its holder by its lease, then the attempt is over and a new one begins."""
    async with neighbourhood(server) as client, agent_of(server, "r3") as agent:
        async with scheduler_process(server) as doomed:
            evaluation = await accepted(client, a_request("r3", 300))
            for _ in range(400):
                if agent.queries:
                    break
                await asyncio.sleep(0.05)
            doomed.send_signal(signal.SIGKILL)
            await doomed.wait()
        async with scheduler(server):
            told = await becomes(client, evaluation, "analyzed")
            log = await log_of(server, "mlscope.v1.*.>")
    assert [(run["attempt"], run["answered"]) for run in told["runs"]] == [(2, 300)]
    assert len(digest_of_log(log)) == 64
