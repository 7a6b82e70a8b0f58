"""What only a real server can do to a bus: die, refuse a key, lack what was never provisioned."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.envelopes import SkippingReader
from mlscope.bus.errors import NotPermitted, NotProvisioned, Unreachable
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand, Recorded, UndecodedMessage
from mlscope.bus.window import PublishWindow
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.request import Evaluate
from schemas.subjects import attempt_batches, command_subject, decisions_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.contracts.worlds import NatsWorld


def settings_of(server: NatsServer, name: str) -> Settings:
    """Return the settings of the connection `name`."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


async def test_a_killed_server_stores_every_batch_once(world: NatsWorld) -> None:
    async with world.connect() as bus:
        window = PublishWindow(bus, size=64)
        for n in range(1500):
            await window.put(a_batch(n, 2_000), id=f"batch-{n}")
            if n in (400, 900):
                await world.stop()
                await world.start()
        await window.drain()
        stored = await bus.read(attempt_batches("trace", E, "r1"))
        assert sorted(r.fact.model_dump()["sequence"] for r in stored) == list(range(1500))


async def test_a_killed_server_loses_no_delivery(world: NatsWorld) -> None:
    async with world.connect() as bus:
        for n in range(300):
            await bus.publish(a_batch(n), id=str(n))
        seen: list[int] = []
        async with aclosing(bus.deliveries("spans", batch=20)) as coming:
            async for deliveries in coming:
                for delivery in deliveries:
                    seen.append(delivery.recorded.fact.model_dump()["sequence"])
                    await delivery.ack()
                if len(seen) == 100:
                    await world.stop()
                    await world.start()
                if set(seen) == set(range(300)):
                    break
        # A consumer's own state is not synced on every acknowledgement: some come twice.
        assert len(seen) <= 400


async def test_guarded_writers_agree_over_a_killed_server(world: NatsWorld) -> None:
    decisions = decisions_of(E)
    async with world.connect() as bus:
        last = 0
        for n in range(60):
            writing = asyncio.create_task(
                bus.publish(a_fact(), id=f"d{n}", expected=(decisions, last))
            )
            if n % 20 == 10:
                await asyncio.sleep(0)
                await world.stop()
                await world.start()
            last = await writing
        assert [r.envelope.id for r in await bus.read(decisions)] == [f"d{n}" for n in range(60)]


async def test_without_a_server_connecting_ends_in_time() -> None:
    begun = time.monotonic()
    with pytest.raises(Unreachable):
        async with connect(Settings(nats_url="nats://127.0.0.1:9"), "agent", timeout_s=0.5):
            pass
    assert time.monotonic() - begun < 10
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_closed_bus_leaves_nothing_running(world: NatsWorld) -> None:
    async with world.connect() as bus:
        await bus.publish(a_fact(), id="a")
        await bus.subscribe("mlscope.v1.>").ready()
    with pytest.raises(Unreachable):
        await bus.publish(a_fact(), id="b")
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_was_never_provisioned_is_named(data_folder: Path) -> None:
    world = NatsWorld(data_folder)
    with world.server:
        async with world.connect(patience_s=0.3) as bus:
            with pytest.raises(NotProvisioned, match="mlscope provision"):
                await bus.publish(a_fact(), id="a")
            with pytest.raises(NotProvisioned):
                await bus.read(decisions_of(E))
            with pytest.raises(NotProvisioned):
                await anext(bus.deliveries("scheduler"))
            with pytest.raises(NotProvisioned):
                await bus.put("leases", "agent-1", b"")


async def test_an_unknown_durable_is_named(world: NatsWorld) -> None:
    async with world.connect() as bus:
        with pytest.raises(NotProvisioned):
            await anext(bus.deliveries("nobody"))


async def test_a_key_may_only_do_its_part(nats_server: NatsServer) -> None:
    await provision(settings_of(nats_server, "provisioner"))
    async with connect(settings_of(nats_server, "agent"), "agent") as agent:
        with pytest.raises(NotPermitted) as raised:
            await agent.publish(a_fact(), id="a")
        assert raised.value.subject == f"mlscope.v1.evaluation.{E}.cancelled"
        with pytest.raises(NotPermitted):
            await agent.answer(command_subject(Evaluate), _no_answer, queue="scheduler")
        with pytest.raises(NotPermitted):
            await agent.ask(command_subject(Evaluate), b"{}")


async def _no_answer(_: ReceivedCommand) -> bytes | None:
    return None


async def test_a_key_of_another_server_is_refused_at_once(
    nats_server: NatsServer, data_folder: Path
) -> None:
    with NatsServer(data_folder) as other:
        settings = replace(settings_of(other, "agent"), nats_url=nats_server.url)
        with pytest.raises(NotPermitted):
            async with connect(settings, "agent", timeout_s=60.0):
                pass


async def test_a_follower_waits_for_a_payload_whose_server_is_away(
    world: NatsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, failures = SkippingReader.decode, [Unreachable("busy")]

    async def failing_once(reader: SkippingReader, stored: UndecodedMessage) -> Recorded | None:
        if failures:
            raise failures.pop()
        return await decode(reader, stored)

    monkeypatch.setattr(SkippingReader, "decode", failing_once)
    async with world.connect() as bus:
        await bus.publish(a_fact(), id="one")
        async with aclosing(bus.follow(decisions_of(E))) as facts:
            recorded = await anext(facts)
    assert (recorded and recorded.fact, failures) == (a_fact(), [])
