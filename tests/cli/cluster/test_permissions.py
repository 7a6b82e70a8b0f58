"""Keys and permissions against a real nats-server: a requester's key can do nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.client import Client

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.permissions import (
    PERMISSIONS,
    Permission,
    agent_inbox,
    agent_key,
    permission_of,
)
from mlscope.bus.inboxes import inbox_prefix
from tests.mlscope.bus.access.permission_trace import covers

ROOT = "mlscope.v1"
VERBS = (
    "evaluate",
    "match",
    "cancel",
    "evaluations",
    "evaluation",
    "publish",
    "withdraw",
    "catalog",
)
LIVE = ("evaluation", "run", "analysis", "query")


CLIENTS = {"requester", "watcher", "curator", "provisioner"}
"""Connections that are no services."""


class Connection:
    """A bare nats-py connection that notes every refusal of the server."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.client = Client()

    async def note(self, error: Exception) -> None:
        """Keep what the server refused."""
        self.refusals.append(str(error))

    async def may_publish(self, subject: str) -> bool:
        """Publish, and tell whether the server let it pass."""
        self.refusals.clear()
        await self.client.publish(subject, b"")
        await self.settle()
        return not self.refusals

    async def may_subscribe(self, subject: str, queue: str = "") -> bool:
        """Subscribe, and tell whether the server allowed it."""
        self.refusals.clear()
        subscription = await self.client.subscribe(subject, queue)
        await self.settle()
        allowed = not self.refusals
        if allowed:
            await subscription.unsubscribe()
        return allowed

    async def settle(self) -> None:
        """Wait until the server has read everything sent so far."""
        # nats-py writes a flush's PING before what is pending: only the second one is a barrier.
        await self.client.flush()
        await self.client.flush()


@asynccontextmanager
async def connected(
    server: NatsServer, name: str, inbox: str | None = None
) -> AsyncIterator[Connection]:
    """Connect as `name` with its key and, unless another is given, its inbox prefix."""
    connection = Connection()
    await connection.client.connect(
        server.url,
        nkeys_seed_str=server.seeds[name],
        inbox_prefix=(inbox or inbox_prefix(name)).encode(),
        error_cb=connection.note,
    )
    try:
        yield connection
    finally:
        await connection.client.close()


def foreign_subjects() -> list[str]:
    """Return every subject that any other name may publish to and the requester may not."""
    others = {
        subject
        for name, permission in PERMISSIONS.items()
        if name != "requester"
        for subject in permission.publish
    }
    own = {*PERMISSIONS["requester"].publish, *(f"{ROOT}.request.{verb}" for verb in VERBS)}
    return sorted(subject.replace("*", "x").replace(">", "x.y") for subject in others - own)


async def test_a_requester_may_ask_and_listen(nats_server: NatsServer) -> None:
    async with connected(nats_server, "requester") as requester:
        for verb in VERBS:
            assert await requester.may_publish(f"{ROOT}.request.{verb}")
        for entity in LIVE:
            assert await requester.may_subscribe(f"{ROOT}.{entity}.*.>")
        assert await requester.may_publish("$SRV.PING")


async def test_a_requester_may_publish_nothing_else(nats_server: NatsServer) -> None:
    subjects = [one for one in foreign_subjects() if not one.startswith(("$SRV", "_INBOX_req"))]
    assert len(subjects) > 50
    async with connected(nats_server, "requester") as requester:
        for subject in subjects:
            assert not await requester.may_publish(subject), subject


@pytest.mark.parametrize(
    "subject",
    [
        f"{ROOT}.request.agent.a1.start",
        f"{ROOT}.evaluation.e1.requested",
        f"{ROOT}.dead.x",
        "$JS.API.INFO",
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.DELETE.EVALUATIONS",
        "$JS.API.CONSUMER.CREATE.EVALUATIONS",
        "$KV.catalog.model",
        "$SYS.REQ.SERVER.PING",
        "_INBOX_requester.another",
        "anything",
    ],
)
async def test_nor_what_an_intruder_would_try(nats_server: NatsServer, subject: str) -> None:
    async with connected(nats_server, "requester") as requester:
        assert not await requester.may_publish(subject)


@pytest.mark.parametrize(
    ("subject", "queue"),
    [
        (">", ""),
        (f"{ROOT}.>", ""),
        (f"{ROOT}.request.>", ""),
        (f"{ROOT}.request.evaluate", ""),
        (f"{ROOT}.request.evaluate", "scheduler"),
        (f"{ROOT}.request.agent.*.*", ""),
        (f"{ROOT}.trace.>", ""),
        (f"{ROOT}.dead.>", ""),
        ("_INBOX.>", ""),
        ("_INBOX_scheduler.>", ""),
        ("_INBOX_gateway.x", ""),
        ("$JS.ACK.>", ""),
        ("$KV.>", ""),
        ("$SYS.>", ""),
        ("$SRV.>", ""),
    ],
)
async def test_a_requester_may_hear_nothing_else(
    nats_server: NatsServer, subject: str, queue: str
) -> None:
    async with connected(nats_server, "requester") as requester:
        assert not await requester.may_subscribe(subject, queue)


async def test_a_watcher_may_watch_and_nothing_else(nats_server: NatsServer) -> None:
    own = {*PERMISSIONS["watcher"].publish}
    foreign = {
        subject.replace("*", "x").replace(">", "x.y")
        for name, permission in PERMISSIONS.items()
        for subject in (*permission.publish, *permission.subscribe)
        if subject not in own
    }
    async with connected(nats_server, "watcher") as watcher:
        assert await watcher.may_publish(f"{ROOT}.request.watch")
        assert await watcher.may_subscribe(f"{ROOT}.watch.e1.*")
        for subject in sorted(foreign):
            assert not await watcher.may_publish(subject), subject
        hearing = [f"{ROOT}.>", f"{ROOT}.*.e1.>", "_INBOX_requester.>", "$JS.>", "$KV.>", ">"]
        hearing += sorted(one for one in foreign if not one.startswith(f"{ROOT}.watch"))
        for subject in hearing:
            if not subject.startswith("_INBOX_watcher"):
                assert not await watcher.may_subscribe(subject), subject


async def test_another_inbox_prefix_hears_no_answer(nats_server: NatsServer) -> None:
    async with connected(nats_server, "requester", inbox="_INBOX") as requester:
        with pytest.raises((nats.errors.TimeoutError, nats.errors.NoRespondersError)):
            await requester.client.request("$SRV.PING", b"", timeout=0.3)
        assert any("permissions violation" in refusal.lower() for refusal in requester.refusals)


async def test_without_a_key_nobody_gets_in(nats_server: NatsServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
    writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
    said = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()
    assert b"Authorization Violation" in said
    assert b"PONG" not in said


async def test_each_command_reaches_its_owner_and_the_answer_comes_back(
    nats_server: NatsServer,
) -> None:
    owners = {"evaluate": "scheduler", "catalog": "registry", "tables": "analyzer"}
    async with connected(nats_server, "requester") as requester:
        for verb, owner in owners.items():
            async with connected(nats_server, owner) as service:
                subscription = await service.client.subscribe(f"{ROOT}.request.{verb}", owner)
                await service.settle()
                asked = asyncio.create_task(
                    requester.client.request(f"{ROOT}.request.{verb}", b"", timeout=5)
                )
                await (await subscription.next_msg(5)).respond(verb.encode())
                assert (await asked).data == verb.encode()
                assert not service.refusals


async def test_the_scheduler_commands_an_agent(nats_server: NatsServer) -> None:
    subject = f"{ROOT}.request.agent.a1.start"
    async with (
        connected(nats_server, "agent") as agent,
        connected(nats_server, "scheduler") as scheduler,
    ):
        subscription = await agent.client.subscribe(f"{ROOT}.request.agent.a1.*")
        await agent.settle()
        asked = asyncio.create_task(scheduler.client.request(subject, b"", timeout=5))
        await (await subscription.next_msg(5)).respond(b"ready")
        assert (await asked).data == b"ready"


WRITERS = {
    "evaluation.e1.requested": {"scheduler"},
    "evaluation.e1.r1.started.a1": {"scheduler"},
    "run.e1.r1.ready.a1": {"agent"},
    "run.e1.r1.completed.a1": {"agent"},
    "run.e1.r1.failed.a1": {"agent"},
    "run.e1.r1.recorded": {"collector"},
    "run.e1.r1.incomplete": {"collector"},
    "analysis.e1.completed": {"analyzer"},
    "trace.e1.r1.captured.a1": {"agent"},
    "output.e1.r1.predicted.a1": {"agent"},
    "query.e1.r1.answered.a1": {"agent"},
    "query.e1.r1.answered.scheduler": {"agent", "scheduler"},
    "agent.a1.announced": {"agent", "registry"},
    "agent.a1.left": {"agent"},
    "agent.a1.lost": {"registry"},
    "agent.a1.drained": {"operator"},
    "agent.a1.resumed": {"operator"},
    "agent.a1.revoked": {"operator"},
    "manifest.m1.published": {"registry"},
    "dead.agent.buried": {"agent"},
    "dead.scheduler.buried": {"scheduler"},
    "dead.gateway.buried": set(),
}


@pytest.mark.parametrize(("fact", "writers"), WRITERS.items())
async def test_a_fact_has_its_writers(
    nats_server: NatsServer, fact: str, writers: set[str]
) -> None:
    allowed: set[str] = set()
    for name in PERMISSIONS:
        async with connected(nats_server, name) as connection:
            if await connection.may_publish(f"{ROOT}.{fact}"):
                allowed.add(name)
    assert allowed == writers


HEARERS = {
    f"{ROOT}.evaluation.e1.>": {"gateway", "requester"},
    f"live.{ROOT}.evaluation.e1.>": {"scheduler"},
    f"{ROOT}.trace.e1.>": {"gateway"},
    f"live.{ROOT}.agent.>": {"registry"},
    f"live.{ROOT}.manifest.>": {"registry"},
    f"{ROOT}.dead.>": set(),
    f"{ROOT}.output.>": set(),
    f"{ROOT}.request.digest": set(),
    f"{ROOT}.request.agent.a1.start": {"agent"},
    "live.$KV.catalog.>": {"registry", "scheduler"},
    "live.$KV.leases.>": {"registry", "scheduler"},
}


@pytest.mark.parametrize(("subject", "hearers"), HEARERS.items())
async def test_a_subject_has_its_hearers(
    nats_server: NatsServer, subject: str, hearers: set[str]
) -> None:
    allowed: set[str] = set()
    for name in PERMISSIONS:
        async with connected(nats_server, name) as connection:
            if await connection.may_subscribe(subject):
                allowed.add(name)
    assert allowed == hearers


@pytest.mark.parametrize("name", sorted(set(PERMISSIONS) - CLIENTS))
async def test_a_service_answers_discovery_and_asks_nothing(
    nats_server: NatsServer, name: str
) -> None:
    async with connected(nats_server, name) as service:
        assert await service.may_subscribe(f"$SRV.PING.{name}.x1")
        assert not await service.may_publish(f"$SRV.PING.{name}")


@pytest.mark.parametrize("name", sorted(set(PERMISSIONS) - {"provisioner"}))
async def test_only_the_provisioner_makes_and_deletes(nats_server: NatsServer, name: str) -> None:
    async with connected(nats_server, name) as connection:
        for verb in ("CREATE", "UPDATE", "DELETE"):
            assert not await connection.may_publish(f"$JS.API.STREAM.{verb}.EVALUATIONS")
        assert not await connection.may_publish("$JS.API.CONSUMER.DELETE.EVALUATIONS.scheduler")
        assert not await connection.may_publish("$JS.API.STREAM.PURGE.EVALUATIONS")


def test_an_empty_permission_cannot_be_made() -> None:
    for publish, subscribe in ((), ("a",)), (("a",), ()):
        with pytest.raises(AssertionError):
            Permission(publish, subscribe)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a server that knows two agents by keys of their own."""
    names = (*PERMISSIONS, agent_key("a1"), agent_key("a2"))
    with NatsServer(tmp_path_factory.mktemp("fleet"), names=names) as server:
        yield server


def sayings(agent: str) -> list[str]:
    """Return what an agent says in its own name."""
    facts = (
        "run.e1.r1.ready",
        "run.e1.r1.completed",
        "run.e1.r1.failed",
        "trace.e1.r1.captured",
        "query.e1.r1.answered",
        "output.e1.r1.predicted",
    )
    own = [f"{ROOT}.{fact}.{agent}" for fact in facts]
    payloads = [
        f"$O.batches.C.trace.e1.r1.captured.{agent}.x",
        f"$O.payloads.C.{agent}.x",
        *(
            f"{look}$O.{store}.M.{agent}.eA=="
            for store in ("payloads", "batches")
            for look in ("", f"$JS.API.DIRECT.GET.OBJ_{store}.")
        ),
    ]
    happened = [f"{ROOT}.agent.{agent}.{each}" for each in ("announced", "left")]
    return [*own, *happened, *payloads, f"$KV.leases.agent-{agent}"]


async def test_an_agent_with_its_own_key_speaks_for_itself_alone(fleet: NatsServer) -> None:
    async with connected(fleet, "agent-a1", inbox=inbox_prefix(agent_inbox("a1"))) as agent:
        for subject in sayings("a1"):
            assert await agent.may_publish(subject), subject
        for subject in (*sayings("a2"), *sayings("scheduler"), "$KV.leases.issuer-s1"):
            assert not await agent.may_publish(subject), subject


async def test_an_agent_with_its_own_key_hears_its_own_orders_alone(fleet: NatsServer) -> None:
    async with connected(fleet, "agent-a1", inbox=inbox_prefix(agent_inbox("a1"))) as agent:
        assert await agent.may_subscribe(f"{ROOT}.request.agent.a1.start")
        assert await agent.may_subscribe("_INBOX_agent.a1.x.*")
        for other in (
            f"{ROOT}.request.agent.a2.start",
            f"{ROOT}.request.agent.*.*",
            "_INBOX_agent.a2.x.*",
            "_INBOX_agent.>",
        ):
            assert not await agent.may_subscribe(other), other


def test_agents_that_share_a_key_may_do_what_each_of_them_may() -> None:
    own, shared = permission_of(agent_key("a1")), PERMISSIONS["agent"]
    assert len(own.publish) == len(shared.publish)
    for subject in own.publish:
        assert any(covers(right, subject) for right in shared.publish), subject
    for subject in own.subscribe:
        assert any(covers(right, subject) for right in shared.subscribe), subject


@pytest.mark.parametrize("name", ["agents", "agent-", "agent-a.b", "agent-*", "agent-scheduler"])
def test_other_names_have_no_rights(name: str) -> None:
    with pytest.raises(KeyError):
        permission_of(name)
