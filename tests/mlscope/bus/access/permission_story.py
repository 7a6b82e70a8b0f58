"""Everything that services do, each with its own key: the happy story and the rarer ones."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import httpx
import yaml

from cli.cluster.keys.members import Members
from cli.cluster.keys.secret_files import ensure_key
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import NatsServer
from mlscope.assets import artifacts
from mlscope.assets.uploads import Uploads, connect_uploads, upload_name
from mlscope.bus.access.permissions import (
    CURATOR,
    OPERATOR,
    WATCHER,
    agent_inbox,
    agent_key,
    invitation_key,
)
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, NotRetried
from mlscope.bus.nats import connect
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.letters import Letters
from mlscope.bus.nats.suspects import MessagesInHand
from mlscope.bus.records import ReceivedCommand, Recorded, ServiceInfo
from mlscope.bus.streams import DURABLES
from mlscope.client import AsyncClient
from mlscope.client.asking import ask_for
from mlscope.client.asynchronous import request_of
from mlscope.client.errors import CommandRefused
from mlscope.client.timelines import overview_of, span_of, window_of
from mlscope.health import Announced, hear
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.agent import (
    AgentAnnounced,
    AgentDrained,
    AgentInvited,
    AgentJoined,
    AgentResumed,
    AgentRevoked,
    Lease,
)
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.dead import LetterBuried
from schemas.encoding.codec import decode_body, encode_body
from schemas.encoding.message_index import COMMANDS
from schemas.message import Fact
from schemas.people import Asker, PersonAdded, PersonRemoved
from schemas.plan import WorkAnswer, WorkOrder
from schemas.run import RunCompleted, Tally
from schemas.subjects import agent_command, asked_subject, command_subject, join_subject
from schemas.trace import ShowWindow, Watch, Watching
from services.agent.host.announcing import announcement
from services.analyzer.store import migrate as migrate_analyzer
from services.collector.store import migrate as migrate_collector
from tests.services.collector.builders import a_completion, a_trace, some_queries

F = TypeVar("F", bound=Fact)

AGENT = "first"
INVITED = "invited"
SERVICES = ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")
ROOT = "mlscope.v1"
LARGE = "x" * 600_000
LASTING = {"name": "fixed_rate", "parameters": {"queries": 30_000, "rate_hz": 100}}
BURYING = {"registry", "scheduler", "agent", "collector", "analyzer"}
MOST_BYTES = 512 * 1024
"""The largest request that is taken."""


@dataclass
class Story:
    """The cluster the story is played on."""

    server: NatsServer
    database_url: str
    gateway_port: int = field(default_factory=free_port)

    def settings(self, name: str, **more: Any) -> Settings:
        """Return the settings of a connection: impatient ones."""
        return Settings(
            nats_url=self.server.url,
            nats_seed_file=self.server.seed_files[name],
            database_url=self.database_url,
            data_folder=self.server.folder,
            gateway_port=self.gateway_port,
            agent_id=AGENT,
            lease_ttl_s=2.0,
            heartbeat_s=0.2,
            purge_after_s=0.3,
            keep_unsaved_bytes=0,
            batch_deadline_s=0.5,
            **more,
        )

    def bus(self, name: str) -> AbstractAsyncContextManager[Bus]:
        """Open a bus with one of the keys."""
        return connect(self.settings(name), name)

    def http(self) -> httpx.AsyncClient:
        """Return a client of the gateway."""
        address = f"http://127.0.0.1:{self.gateway_port}/api"
        return httpx.AsyncClient(base_url=address, timeout=60)

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[AsyncClient]:
        """Run every service; lend a requester."""
        await provision(self.settings("provisioner"))
        migrate_collector(self.database_url)
        migrate_analyzer(self.database_url)
        async with AsyncExitStack() as stack:
            for name in SERVICES:
                await stack.enter_async_context(self._serving(name))
            requester = await stack.enter_async_context(self.bus("requester"))
            for name in SERVICES:
                ping = json.loads(await answered(requester, f"$SRV.PING.{name}", b""))
                await asyncio.to_thread(self.check_health, name, str(ping["id"]))
            yield AsyncClient(bus=requester)

    def check_health(self, name: str, instance: str) -> None:
        """Ask an instance of a service with its own key whether it answers."""
        settings = self.settings(agent_key(AGENT) if name == "agent" else name)
        with TemporaryDirectory() as folder:
            file = Path(folder, "ready")
            Announced(instance, 0).write(file)
            assert hear(replace(settings, ready_file=file), name) == "answers"

    def _own_bus(self, name: str) -> AbstractAsyncContextManager[Bus]:
        """Open a service's bus; the agent that does the work has a key of its own."""
        if name != "agent":
            return self.bus(name)
        key = agent_key(AGENT)
        return connect(self.settings(key), name, inbox=agent_inbox(AGENT))

    @asynccontextmanager
    async def _serving(self, name: str) -> AsyncIterator[None]:
        serve: Callable[..., Awaitable[None]] = import_module(f"services.{name}.service").serve
        stop = asyncio.Event()
        async with self._own_bus(name) as bus:
            serving = asyncio.ensure_future(serve(bus, self.settings(name), stop))
            try:
                yield
            finally:
                stop.set()
                await serving


async def answered(bus: Bus, subject: str, body: bytes) -> bytes:
    """Return the answer once there is somebody who gives one."""
    for _ in range(200):
        try:
            return await bus.ask(subject, body, timeout_s=1.0)
        except BusError:
            await asyncio.sleep(0.05)
    raise AssertionError(f"no answer on {subject}")


async def play(story: Story, client: AsyncClient) -> None:
    """Play every part, all at once."""
    async with asyncio.TaskGroup() as parts:
        for part in PARTS:
            parts.create_task(part(story, client))
        parts.create_task(send_nonsense(story, client.bus))


async def evaluate(story: Story, client: AsyncClient) -> None:
    """Measure under both kinds of pacing, asked by a request as large as may be."""
    loads = [
        {"name": "online", "parameters": {"queries": 3}},
        {"name": "poisson", "parameters": {"queries": 20, "rate_hz": 200}},
    ]
    fields = {"scenarios": loads, "agents": ["first"], "wait_s": 30}
    room = MOST_BYTES - len(encode_body(request_of(a_model("own"), fields))) - 64
    asked = await client.evaluate(request_of(a_model("own", description="x" * room), fields))
    async for progress in asked.watch():
        status = progress.status
    assert (status.state, len(status.runs)) == ("analyzed", 2), status
    async with story.http() as web:
        assert (await web.get("../healthz")).json() == {"ok": True}
    assert any(each.evaluation == asked.id for each in await client.evaluations())
    assert (await client.match("identity")).runs
    assert len(await client.tables(asked.id)) > 0
    with suppress(CommandRefused):
        await client.predictions(asked.id)
    with suppress(CommandRefused):
        await client.compare(asked.id, asked.id)
    assert (await client.explore()).tables
    assert (await client.trace(asked.id)).spans
    trace = await overview_of(client.bus, asked.id)
    window = ShowWindow(evaluation=asked.id, run=trace.run)
    parts = [part async for part in window_of(client.bus, window)]
    assert sum(len(part.part) for part in parts) == parts[0].total_bytes
    with suppress(CommandRefused):
        await span_of(client.bus, asked.id, trace.run, 1)
    assert (await client.flow(asked.id))[-1]["schema"] == "evaluation.analyzed"
    with suppress(CommandRefused):
        await client.run("nothing-is-called-this")
    async with story.http() as http:
        told = await http.get(f"/evaluations/{asked.id}/events")
    assert "evaluation.analyzed" in told.text, told.text


async def cancel(_: Story, client: AsyncClient) -> None:
    """Stop a run that would last."""
    asked = await client.run("identity", scenarios=[LASTING], agents=["first"], wait_s=30)
    async for progress in asked.watch():
        if progress.status.state == "running":
            break
    await client.cancel(asked.id, "seen enough")
    assert (await asked.wait(60)).state == "cancelled"


async def look_on(story: Story, _: AsyncClient) -> None:
    """Do over HTTP what the gateway offers, and look at an evaluation while it goes on."""
    online = {"name": "online", "parameters": {"queries": 3}}
    body = {"model": "identity", "scenarios": [online], "agents": ["first"], "wait_s": 30}
    async with story.http() as http:
        asked = (await http.post("/evaluations", json=body)).json()
        place = f"/evaluations/{asked['evaluation']}"
        async with http.stream("GET", f"{place}/events") as events:
            told = "".join([text async for text in events.aiter_text()])
        assert "evaluation.analyzed" in told, told
        figures = await http.get(f"http://127.0.0.1:{story.gateway_port}/metrics")
        assert 'mlscope_service_up{service="agent"} 1.0' in figures.text
        assert 'mlscope_durable_waiting{durable="spans",stream="TRACES"}' in figures.text
        lasting = (await http.post("/evaluations", json={**body, "scenarios": [LASTING]})).json()
        answers = [
            await http.post("/match", json={"model": "identity"}),
            await http.get("/catalog"),
            await http.get("/evaluations"),
            await http.get(place),
            await http.get(f"{place}/tables"),
            await http.get("/compare", params={"evaluation": [asked["evaluation"]] * 2}),
            await http.get("/explore"),
            *await look_at_a_trace(http, place),
            await http.delete(f"/evaluations/{lasting['evaluation']}"),
            await http.post("/manifests", json={"manifest": {"kind": "scenario", "name": "ours"}}),
            await http.delete("/manifests/scenario/ours/1.0.0"),
            await http.put("/prices/first", json={"dollars_per_hour": 3.06}),
        ]
    assert [each.status_code for each in answers] == [200] * 14 + [202, 201, 200, 200]


async def look_at_a_trace(http: httpx.AsyncClient, place: str) -> list[httpx.Response]:
    """Read the trace of an evaluation, its answers and its downloads."""
    trace = await http.get(f"{place}/trace")
    run = f"{place}/runs/{trace.json()['run']}"
    spans = await http.get(f"{run}/spans", params={"format": "json", "columns": "id"})
    span = spans.json()["columns"]["id"][0]
    paths = (
        f"{run}/spans/{span}",
        f"{run}/exports/chrome",
        f"{place}/exports/flow",
        f"{place}/exports/log",
        f"{place}/predictions",
    )
    return [trace, spans, *[await http.get(path) for path in paths]]


async def lose_an_agent(story: Story, client: AsyncClient) -> None:
    """Be an agent that says large things, announces too much, falls silent, and comes back."""
    lease = encode_body(Lease(holder="ghost", incarnation="g1"), json_text=True)
    async with story.bus("agent") as bus, story.bus("scheduler") as issuer:

        async def start(asked: ReceivedCommand) -> bytes:
            order = decode_body(WorkOrder, asked.body)
            await issuer.publish(a_large_load(order), id=f"{order.evaluation} load")
            for fact in (a_large_batch(order), a_large_end(order)):
                await bus.publish(fact, id=f"{order.evaluation} {fact.schema_name()}")
            return encode_body(WorkAnswer(accepted=True))

        await bus.answer(agent_command("ghost", "start"), start, queue=None)
        await bus.answer(agent_command("ghost", "close"), agreed, queue=None)
        await bus.put("leases", "agent-ghost", lease)
        said = AgentAnnounced(agent="ghost", announcement=announcement("ghost", "g1"))
        await bus.publish(said, id="ghost")
        await fleet_has(client, "live")
        asked = await client.run("identity", agents=["ghost"], pacing="local", wait_s=30)
        assert (await asked.wait(60)).runs[0].state == "incomplete"
        await bus.delete("leases", "agent-ghost")
        await fleet_has(client, "lost")
        await bus.put("leases", "agent-ghost", lease)
        await fleet_has(client, "live")


async def agreed(_: ReceivedCommand) -> bytes:
    """Do nothing, with pleasure."""
    return encode_body(WorkAnswer(accepted=True))


def of(order: WorkOrder, fact: F, **changes: Any) -> F:
    """Return a fact as one of an order's first run."""
    attempt = {"evaluation": order.evaluation, "run": order.runs[0], "attempt": order.attempt}
    return fact.model_copy(update={**attempt, "agent": order.agent, **changes})


def a_large_batch(order: WorkOrder) -> TraceCaptured:
    """Return spans that are too large to travel as a message."""
    return of(order, a_trace(), attribute_rows=(0,), attribute_texts=(b'"%s"' % LARGE.encode(),))


def a_large_load(order: WorkOrder) -> QueriesAnswered:
    """Return what an issuer says of a load of which much went wrong."""
    return of(order, some_queries(), agent="scheduler", error_texts=(LARGE,))


def a_large_end(order: WorkOrder) -> RunCompleted:
    """Return the end of a run of which a batch of outputs is still to come."""
    tally = Tally(trace_batches=1, query_batches=1, output_batches=1, queries=3, spans=4)
    return of(order, a_completion(), tally=tally, caveats=(LARGE,))


async def fleet_has(client: AsyncClient, state: str) -> None:
    """Return once the catalog says so of the ghost."""
    for _ in range(300):
        found = (await client.catalog(kind="agent", name="ghost")).agents
        if [each.state for each in found] == [state]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the ghost is not {state}: {found}")


async def change_the_catalog(_: Story, client: AsyncClient) -> None:
    """Publish a manifest that is too large for a message, and take it back."""
    await client.publish(a_model("large", description=LARGE))
    await client.withdraw("model", "large", "1.0.0")
    await client.set_price("first", 3.06)


async def keep_artifacts(story: Story, _: AsyncClient) -> None:
    """Put a file into the artifact repository twice, have an agent read it, and remove it."""
    path = story.server.folder / "artifact"
    path.write_bytes(b"weights")
    got: list[bytes] = []
    key = agent_key(AGENT)
    async with (
        artifacts.connect(story.settings(CURATOR), CURATOR) as curator,
        artifacts.connect(story.settings(key), "agent", inbox=agent_inbox(AGENT)) as agent,
    ):
        for _again in range(2):
            await curator.put("m/weights", path)
        await agent.read(await agent.described("m/weights"), got.extend)
        assert [each.name for each in await curator.ls()] == ["m/weights"]
        await curator.rm("m/weights")
    assert b"".join(got) == b"weights"


async def upload(story: Story, _: AsyncClient) -> None:
    """Put files with a requester's key and the gateway's, and have an agent read one."""
    path = story.server.folder / "upload"
    path.write_bytes(b"pictures")
    got, key = list[bytes](), agent_key(AGENT)
    async with (
        connect_uploads(story.settings("requester"), "requester") as requester,
        connect_uploads(story.settings("gateway"), "gateway") as gateway,
        artifacts.connect(story.settings(key), "agent", inbox=agent_inbox(AGENT)) as agent,
    ):
        sent = await requester.put(upload_name(path), path)
        path.write_bytes(b"sent over HTTP")
        await gateway.put(upload_name(path), path)
        found = Uploads.beside(agent)
        await found.read(await found.described(sent.name), got.extend)
    assert b"".join(got) == b"pictures"


def a_model(name: str, **changes: str) -> dict[str, Any]:
    """Return a shipped manifest under another name."""
    path = Settings().manifests_folder / "models" / "identity.yml"
    return {**yaml.safe_load(path.read_text("utf-8")), "name": name, "version": "1.0.0", **changes}


async def send_nonsense(story: Story, requester: Bus) -> None:
    """Send what can't be understood to everybody who takes letters; each buries it."""
    for verb in ("evaluate", "publish", "tables"):
        await requester.publish_live(f"{ROOT}.request.{verb}", b"{")
    async with story.bus("scheduler") as bus:
        await bus.publish_live(agent_command("first", "start"), b"{")
        await bus.publish_live(f"{ROOT}.evaluation.e0.measured", b"{")
    async with story.bus("agent") as bus:
        await bus.publish_live(f"{ROOT}.trace.e0.r0.captured.first", b"{")
    async with story.bus(OPERATOR) as reader:
        buried: set[str] = set()
        while len(buried) < len(BURYING):
            letters = [each.fact for each in await reader.read(f"{ROOT}.dead.>")]
            buried = {each.service for each in letters if isinstance(each, LetterBuried)}
            await asyncio.sleep(0.05)
        assert buried == BURYING
        await settle_letters(story, await reader.read(f"{ROOT}.dead.>"))


async def settle_letters(story: Story, letters: Sequence[Recorded]) -> None:
    """Have each durable handle a message again that its stream does not have, and drop a letter."""
    connection = Connection(story.settings(OPERATOR), OPERATOR, patience_s=30.0)
    await connection.open(30.0)
    try:
        for durable in DURABLES:
            letter = LetterBuried(
                service=durable.service or durable.name,
                reason="",
                subject="",
                stream=durable.stream,
                sequence=1 << 40,
            )
            with suppress(NotRetried):
                await Letters(connection).retry(1 << 40, letter)
        await Letters(connection).drop(letters[0].sequence)
    finally:
        await connection.close()


async def note_suspects(story: Story, _: AsyncClient) -> None:
    """Have a message of each durable in hand alone, with the key of its service."""
    for durable in DURABLES:
        bus, place = story.bus(durable.service or durable.name), (durable.name, 1 << 40)
        async with bus as hers, MessagesInHand(hers).handling_alone(place) as reason:
            assert reason == ""


async def watch_live(story: Story, client: AsyncClient) -> None:
    """Watch a running evaluation's spans with a watcher's key and with a requester's."""
    asked = await client.run("identity", scenarios=[LASTING], agents=["first"], wait_s=30)
    async with story.bus(WATCHER) as watcher:
        for bus in (watcher, client.bus):
            watching = await ask_for(bus, Watch(evaluation=asked.id), Watching, timeout_s=30)
            messages = await bus.subscribe(watching.subject).ready()
            async with asyncio.timeout(60):
                subject, _ = await anext(messages)
            assert subject.startswith(f"{ROOT}.watch.{asked.id}.")
            await messages.aclose()
        # Refused, and nobody waits for the answer.
        await watcher.publish_live(command_subject(Watch), encode_body(Watch(evaluation="none")))
    await client.cancel(asked.id)
    assert (await asked.wait(60)).state == "cancelled"


async def decide_who_may_be_an_agent(story: Story, client: AsyncClient) -> None:
    """Admit a machine that was invited, then drain, resume and revoke it."""
    invited = Members(story.server.folder)
    public = ensure_key(story.server.folder / "elsewhere", INVITED).public
    invited.invite(INVITED, public, time.time() + 60)
    asking = invitation_key(INVITED)
    async with story.bus(OPERATOR) as operator, connect(story.settings(asking), asking) as machine:

        async def admit(command: ReceivedCommand) -> bytes:
            agent = command.subject.rsplit(".", 1)[-1]
            return str(invited.admit(agent, command.body.decode())).encode()

        await operator.answer(join_subject("*"), admit, queue="admission")
        answers = [await machine.ask(join_subject(INVITED), public.encode()) for _ in range(2)]
        assert answers == [b"True", b"False"]
        announced = await operator.announce(ServiceInfo(OPERATOR, "1.0.0", "", {}), dict)
        for subject in ("$SRV.PING", f"$SRV.PING.{OPERATOR}"):
            await answered(client.bus, subject, b"")
        with TemporaryDirectory() as folder:
            file = Path(folder, "ready")
            Announced(announced.instance, 0).write(file)
            settings = replace(story.settings(OPERATOR), ready_file=file)
            assert await asyncio.to_thread(hear, settings, OPERATOR) == "answers"
        await operator.publish(PersonAdded(person="ada", role="owner"), id="ada added")
        await operator.publish(PersonRemoved(person="ada"), id="ada removed")
        await operator.publish(AgentInvited(agent=INVITED, ends_ns=1), id=f"{INVITED} invited")
        for fact in (AgentJoined, AgentDrained, AgentResumed, AgentRevoked):
            await operator.publish(fact(agent=INVITED), id=f"{fact.happened} {INVITED}")
        await operator.delete("leases", f"agent-{INVITED}")


async def ask_for_people(story: Story, _: AsyncClient) -> None:
    """Ask in a person's name, as the gateway does; what is no command is refused."""
    ada = Asker("ada", "owner")
    async with story.bus("gateway") as gateway:
        for verb in COMMANDS.keys() - {Watch.verb}:
            await answered(gateway, asked_subject(ada, verb), b"{}")
        eve = Asker("eve", "requester", at_most=1)
        waiting = encode_body(request_of("identity", {"agents": ["nobody"], "wait_s": 60}))
        for error in (b"", b"exhausted"):
            assert error in await gateway.ask(asked_subject(eve, "evaluate"), waiting)
    async with story.bus("provisioner") as reader:
        for entity in ("person", "evaluation", "agent", "manifest"):
            assert await reader.read(f"{ROOT}.{entity}.>")


PARTS = (
    note_suspects,
    ask_for_people,
    decide_who_may_be_an_agent,
    watch_live,
    evaluate,
    cancel,
    look_on,
    lose_an_agent,
    change_the_catalog,
    keep_artifacts,
    upload,
)
"""What people do, all of it at once."""
