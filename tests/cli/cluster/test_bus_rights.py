"""The bus with real keys: every service can do its part, and nobody's part is done for another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamState

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.bus import Delivery
from mlscope.bus.envelopes import in_envelope
from mlscope.bus.errors import BusError, Conflict, NotPermitted
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand, ServiceInfo
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.agent import AgentLeft
from schemas.analysis import AnalysisFailed
from schemas.encoding.codec import encode
from schemas.evaluation import EvaluationCancelled, EvaluationMeasured
from schemas.message import Fact
from schemas.run import RunFailed
from schemas.subjects import decisions_of, facts_of, story_of

DECISION = EvaluationMeasured(evaluation="e1", runs=())


def settings_of(server: NatsServer, name: str) -> Settings:
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


@pytest.fixture
async def server(data_folder: Path) -> AsyncIterator[NatsServer]:
    with NatsServer(data_folder) as started:
        await provision(settings_of(started, "provisioner"))
        yield started


async def first(deliveries: AsyncIterator[Sequence[Delivery]]) -> Fact | None:
    """Return the first fact of a durable, acknowledged."""
    async for batch in deliveries:
        await batch[0].ack()
        return batch[0].recorded.fact
    return None


async def test_a_decision_reaches_its_consumers(server: NatsServer) -> None:
    async with connect(settings_of(server, "scheduler"), "scheduler") as scheduler:
        await scheduler.publish(DECISION, id="1", expected=(decisions_of("e1"), 0))
        with pytest.raises(Conflict):
            await scheduler.publish(DECISION, id="2", expected=(decisions_of("e1"), 0))
        assert await first(scheduler.deliveries("scheduler")) == DECISION
        async with connect(settings_of(server, "analyzer"), "analyzer") as analyzer:
            assert await first(analyzer.deliveries("analyzer")) == DECISION
            failed = AnalysisFailed(evaluation="e1", cause="none")
            await analyzer.publish(failed, id="3")
            story = await analyzer.read("mlscope.v1.*.e1.>")
        assert [recorded.fact for recorded in story] == [DECISION, failed]


async def test_the_fleet_reaches_the_registry_and_the_catalog_the_scheduler(
    server: NatsServer,
) -> None:
    left = AgentLeft(agent="a1", incarnation="i1")
    async with (
        connect(settings_of(server, "agent"), "agent") as agent,
        connect(settings_of(server, "registry"), "registry") as registry,
        connect(settings_of(server, "scheduler"), "scheduler") as scheduler,
    ):
        await agent.publish(left, id="1")
        await agent.put("leases", "agent_a1", b"alive")
        assert await first(registry.deliveries("registry")) == left
        followed = registry.follow(facts_of(AgentLeft))
        recorded = await anext(followed)
        assert recorded is not None
        assert recorded.fact == left
        entry = await registry.get("leases", "agent_a1")
        assert entry is not None
        assert entry.value == b"alive"
        await registry.put("catalog", "agent_a1", b"gone")
        watched = scheduler.watch("catalog")
        newest = await anext(watched)
        assert newest is not None
        assert newest.value == b"gone"
        assert await anext(watched) is None


@pytest.mark.parametrize(
    ("name", "fact", "readers"),
    [
        ("agent", "trace.e1.r1.captured.a1", {"collector"}),
        ("agent", "run.e1.r1.completed.a1", {"collector", "scheduler", "analyzer", "gateway"}),
        ("scheduler", "evaluation.e1.planned", {"collector", "analyzer", "gateway"}),
        ("scheduler", "query.e1.r1.answered.scheduler", {"collector"}),
        ("registry", "manifest.m1.published", {"registry"}),
    ],
)
async def test_large_facts_reach_their_readers(
    server: NatsServer, name: str, fact: str, readers: set[str]
) -> None:
    subject, body = f"mlscope.v1.{fact}", bytes(range(256)) * 4096
    async with connect(settings_of(server, name), name) as bus:
        digest = await bus.put_object(subject, "large", body)
    for reader in readers:
        async with connect(settings_of(server, reader), reader) as bus:
            assert await bus.get_object(subject, "large", digest) == body


@pytest.mark.parametrize("name", ["collector", "analyzer", "gateway"])
@pytest.mark.parametrize("fact", ["trace.e1.r1.captured.a1", "evaluation.e1.planned"])
async def test_who_says_nothing_large_cannot_write_it(
    server: NatsServer, name: str, fact: str
) -> None:
    async with connect(settings_of(server, name), name) as bus:
        with pytest.raises(NotPermitted):
            await bus.put_object(f"mlscope.v1.{fact}", "large", b"x")


async def test_an_agent_reads_nobody_s_facts(server: NatsServer) -> None:
    async with connect(settings_of(server, "scheduler"), "scheduler") as bus:
        digest = await bus.put_object("mlscope.v1.evaluation.e1.planned", "plan", b"secret")
    async with connect(settings_of(server, "agent"), "agent") as bus:
        with pytest.raises(NotPermitted):
            await bus.get_object("mlscope.v1.evaluation.e1.planned", "plan", digest)
        for facts in ("evaluation.e1.>", "trace.e1.>", "agent.>", "manifest.>"):
            with pytest.raises(NotPermitted):
                await bus.read(f"mlscope.v1.{facts}")
        with pytest.raises(NotPermitted):
            await bus.get("catalog", "agent-a1")
        # Whether another living start has its name an agent has to see.
        assert await bus.get("leases", "agent-a1") is None


async def test_the_collector_reads_and_purges_batches(server: NatsServer) -> None:
    async with connect(settings_of(server, "collector"), "collector") as collector:
        assert await collector.read("mlscope.v1.trace.e1.>") == []
        await collector.purge("mlscope.v1.trace.e1.>")
        for durable in ("recorder", "spans", "queries"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await first(collector.deliveries(durable))


@pytest.mark.parametrize("name", ["agent", "analyzer", "gateway", "registry"])
async def test_nobody_else_decides(server: NatsServer, name: str) -> None:
    async with connect(settings_of(server, name), name, patience_s=1.0) as bus:
        with pytest.raises(BusError):
            await bus.publish(DECISION, id="1")
    async with connect(settings_of(server, "scheduler"), "scheduler") as scheduler:
        assert await scheduler.read(decisions_of("e1")) == []


async def test_an_answer_cannot_be_made_to_pass_for_a_fact(server: NatsServer) -> None:
    """A requester names a fact's subject as the reply to a command and to discovery."""
    asked = asyncio.Event()

    async def answerer(_: ReceivedCommand) -> bytes:
        asked.set()
        return b"{}"

    async with connect(settings_of(server, "scheduler"), "scheduler") as scheduler:
        await scheduler.announce(ServiceInfo("scheduler", "1.0.0", "decides", {}), dict)
        await scheduler.answer("mlscope.v1.request.evaluate", answerer, queue="scheduler")
        client = await nats.connect(
            server.url,
            nkeys_seed_str=server.seeds["requester"],
            inbox_prefix=b"_INBOX_requester",
        )
        forged = "mlscope.v1.evaluation.e1.requested"
        await client.publish("$SRV.PING", b"", reply=forged)
        await client.publish("mlscope.v1.request.evaluate", b"{}", reply=forged)
        await asyncio.wait_for(asked.wait(), 5)
        answer = await client.request("mlscope.v1.request.evaluate", b"{}", timeout=5)
        assert answer.data == b"{}"
        await client.close()
        assert await messages_in(server, "EVALUATIONS") == 0


async def messages_in(server: NatsServer, stream: str) -> int:
    """Count what a stream holds, readable or not."""
    return (await span_of(server, stream)).messages


async def span_of(server: NatsServer, stream: str) -> StreamState:
    """Return how much a stream holds, from where to where."""
    client = await nats.connect(
        server.url,
        nkeys_seed_str=server.seeds["provisioner"],
        inbox_prefix=b"_INBOX_provisioner",
    )
    state = (await client.jetstream().stream_info(stream)).state
    await client.close()
    return state


async def roll_up(server: NatsServer, subject: str) -> None:
    """Publish on a subject as an agent, in place of all messages of it and of the stream."""
    client = await nats.connect(server.url, nkeys_seed_str=server.seeds["agent"])
    for extent in ("all", "sub"):
        await client.publish(subject, b"", headers={"Nats-Rollup": extent})
    await client.flush()
    await client.flush()
    await client.close()


async def test_a_fact_under_the_subject_of_another_is_no_fact(server: NatsServer) -> None:
    """Rights are subjects: what the body says must be what its subject allowed."""
    cancelled = EvaluationCancelled(evaluation="e1", reason="forged")
    stranger = RunFailed(evaluation="e1", run="r1", attempt=1, agent="a2", error="x", message="")
    async with connect(settings_of(server, "agent"), "agent") as agent:
        for fact, subject in (
            (cancelled, "mlscope.v1.run.e1.r1.completed.a1"),
            (stranger, "mlscope.v1.run.e1.r1.failed.a1"),
        ):
            await agent.publish_live(subject, encode(in_envelope(fact, id=fact.schema_name())))
        await agent.publish(stranger, id="by itself")
    async with connect(settings_of(server, "scheduler"), "scheduler") as scheduler:
        story = await scheduler.read(story_of("e1"))
        assert [recorded.fact for recorded in story] == [stranger]
        assert await first(scheduler.deliveries("scheduler")) == stranger
    assert await messages_in(server, "DEAD") == 2


@pytest.mark.parametrize(
    ("stream", "subject"),
    [
        ("OBJ_payloads", "$O.payloads.M.a1.eA=="),
        ("OBJ_batches", "$O.batches.M.a1.eA=="),
        ("EVALUATIONS", "mlscope.v1.run.e1.r1.ready.a1"),
        ("KV_leases", "$KV.leases.agent-a1"),
    ],
)
async def test_nobody_rolls_up_what_others_wrote(
    server: NatsServer, stream: str, subject: str
) -> None:
    """A message that may be written must not take every other one of its stream away."""
    async with connect(settings_of(server, "scheduler"), "scheduler") as scheduler:
        await scheduler.publish(DECISION, id="1")
        for fact in ("query.e1.r1.answered.scheduler", "evaluation.e1.planned"):
            await scheduler.put_object(f"mlscope.v1.{fact}", "large", b"x")
        await scheduler.put("leases", "issuer-1", b"x")
    before = await span_of(server, stream)
    await roll_up(server, subject)
    assert await span_of(server, stream) == before
    assert before.messages > 0


async def test_nobody_suppresses_a_decision_by_its_id(server: NatsServer) -> None:
    """The server drops a message whose id it has seen lately, whoever sent that one."""
    failed = RunFailed(evaluation="e1", run="r1", attempt=1, agent="a1", error="x", message="")
    async with (
        connect(settings_of(server, "agent"), "agent") as agent,
        connect(settings_of(server, "scheduler"), "scheduler") as scheduler,
    ):
        before = await agent.publish(failed, id="the decision to come")
        after = await scheduler.publish(DECISION, id="the decision to come")
        again = await scheduler.publish(DECISION, id="the decision to come")
    assert before < after == again


async def test_an_id_is_not_foreseen_by_who_lacks_the_key(server: NatsServer) -> None:
    client = await nats.connect(
        server.url, nkeys_seed_str=server.seeds["agent"], inbox_prefix=b"_INBOX_agent"
    )
    subject, headers = "mlscope.v1.run.e1.r1.failed.a1", {"Nats-Msg-Id": "the decision to come"}
    await client.request(subject, b"{}", headers=headers)
    await client.close()
    async with connect(settings_of(server, "scheduler"), "scheduler") as scheduler:
        assert await scheduler.publish(DECISION, id="the decision to come") == 2
