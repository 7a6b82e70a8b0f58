"""Three brokers: who keeps what, whom clients find, and the death of a leader."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import TooFewServers
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand
from mlscope.bus.streams import BUCKETS, STORES, STREAMS
from mlscope.bus.window import PublishWindow
from mlscope.provision import provision
from schemas.batch import TraceCaptured
from schemas.subjects import REQUEST, attempt_batches, decisions_of, facts_of, subject_of
from tests.brokers import Brokers, three_brokers
from tests.contracts.facts import E, a_batch, a_fact

LEADER_LOST = 100


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    """Run three brokers; each test finds all of them running, and leaves them so."""
    with three_brokers() as running:
        yield running


NAMES = (
    *(stream.name for stream in STREAMS),
    *(f"KV_{bucket.name}" for bucket in BUCKETS),
    *(f"OBJ_{store.name}" for store in STORES),
)


async def replicas_in(brokers: Brokers) -> set[int]:
    """Return by how many servers streams, buckets and stores are kept."""
    return {(await brokers.described(name))["config"]["num_replicas"] for name in NAMES}


async def test_what_one_kept_is_kept_by_three_where_there_are_three(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    settings = brokers.settings("provisioner")
    await provision(replace(settings, replicas=1))
    assert await replicas_in(brokers) == {1}
    with pytest.raises(TooFewServers, match="lower MLSCOPE_REPLICAS"):
        await provision(replace(settings, replicas=5))
    with caplog.at_level(logging.WARNING, "mlscope.provision"):
        await provision(settings)
        await provision(settings)
    for name in NAMES:  # else the death of one server takes a stream away
        info = await brokers.described(name)
        assert info["config"]["num_replicas"] == 3
        assert [one["current"] for one in info["cluster"]["replicas"]] == [True, True]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("replicas changed from 1 to 3: EVALUATIONS, ")


async def test_a_client_of_one_finds_the_others(brokers: Brokers) -> None:
    first = brokers.members[0]
    await provision(brokers.settings("provisioner"))
    async with connect(brokers.settings("agent", first.url), "agent") as bus:
        await bus.publish(a_batch(0), id="before")
        first.kill()
        await bus.publish(a_batch(1), id="after")
    first.start(timeout_s=20)
    brokers.await_health()


async def test_accounts_reach_each_other_from_broker_to_broker(brokers: Brokers) -> None:
    """What crosses between accounts does so between brokers, whoever leads a stream."""
    await provision(brokers.settings("provisioner"))
    urls = [broker.url for broker in brokers.members]
    subject = f"{REQUEST}.explore"

    async def answered(command: ReceivedCommand) -> bytes:
        return command.body

    async with (
        connect(brokers.settings("agent", urls[0]), "agent") as agent,
        connect(brokers.settings("gateway", urls[1]), "gateway") as gateway,
        connect(brokers.settings("analyzer", urls[2]), "analyzer") as analyzer,
    ):
        await analyzer.answer(subject, answered, queue="analyzer")
        assert (
            await gateway.ask(subject, b"asked from another broker") == b"asked from another broker"
        )
        live = await gateway.subscribe(facts_of(TraceCaptured)).ready()
        heard = asyncio.ensure_future(anext(live))
        for number in range(100):
            sequence = await agent.publish(a_batch(number), id=f"over brokers {number}")
            # Other brokers hear of a subscription a moment after its own.
            if (await asyncio.wait({heard}, timeout=0.2))[0]:
                break
        assert heard.result()[0] == subject_of(a_batch(0))
        await live.aclose()
    for url in urls:
        async with connect(brokers.settings("collector", url), "collector") as collector:
            assert await collector.backlog("spans")
            assert sequence in await pulled_up_to(collector, sequence)


async def pulled_up_to(collector: Bus, sequence: int) -> dict[int, str]:
    """Pull the traces up to `sequence`, and give them back; return their subjects."""
    subjects: dict[int, str] = {}
    async with aclosing(collector.deliveries("spans", batch=20)) as coming:
        async for deliveries in coming:
            for delivery in deliveries:
                subjects[delivery.recorded.sequence] = delivery.recorded.subject
                await delivery.retry(0.01)
            if sequence in subjects:
                return subjects
    raise AssertionError("no more deliveries")


async def test_the_death_of_the_leader_loses_and_doubles_nothing(brokers: Brokers) -> None:
    await provision(brokers.settings("provisioner"))
    decisions, batches = decisions_of("e-leader"), attempt_batches("trace", E, "r1")
    async with (
        connect(brokers.settings("scheduler"), "scheduler") as scheduler,
        connect(brokers.settings("agent"), "agent") as agent,
        connect(brokers.settings("collector"), "collector") as collector,
    ):
        before = {each.sequence for each in await collector.read(batches)}
        window = PublishWindow(agent, size=64)
        last, dead = 0, None
        for n in range(2 * LEADER_LOST):
            if n == LEADER_LOST:
                dead = await brokers.leader("EVALUATIONS")
                dead.kill()
            await window.put(a_batch(n), id=f"leader-{n}")
            decided = a_fact(str(n), "e-leader")
            last = await scheduler.publish(decided, id=f"d{n}", expected=(decisions, last))
        await window.drain()
        stored = [each for each in await collector.read(batches) if each.sequence not in before]
        assert sorted(each.fact.model_dump()["sequence"] for each in stored) == list(range(n + 1))
        ids = [each.envelope.id for each in await scheduler.read(decisions)]
        assert ids == [f"d{n}" for n in range(2 * LEADER_LOST)]
    assert dead is not None
    dead.start(timeout_s=20)
    brokers.await_health()
    async with connect(brokers.settings("scheduler", dead.url), "scheduler") as scheduler:
        assert [each.envelope.id for each in await scheduler.read(decisions)] == ids
