"""What only a real server can do to a bus: die, refuse a key, lack what was never provisioned."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import nats
import pytest

from cli.cluster.nats_server import NatsServer
from mlscope.bus.bus import Asked
from mlscope.bus.errors import NotPermitted, NotProvisioned, Unreachable
from mlscope.bus.nats import connect
from mlscope.bus.nats.admin import ServerTooOld
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.objects import Objects, nuid_of
from mlscope.bus.streams import BATCHES, MAX_MESSAGE_BYTES, OBJECTS
from mlscope.bus.window import PublishWindow
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.request import Evaluate
from schemas.subjects import attempt_batches, command_subject, decisions_of, subject_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.contracts.worlds import NatsWorld, OpenSettings, Shape
from tests.places import lent_folder


@pytest.fixture(scope="module")
def open_world() -> Iterator[NatsWorld]:
    """Run a server without users that tests may kill."""
    with lent_folder("open-nats") as folder:
        world = NatsWorld(folder)
        world.server.start()
        yield world
        world.server.stop()


@pytest.fixture
async def world(open_world: NatsWorld) -> NatsWorld:
    """Provision the server anew."""
    await open_world.make(Shape(max_bytes=64 << 20))
    return open_world


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
        await bus.hear("mlscope.v1.>").ready()
    with pytest.raises(Unreachable):
        await bus.publish(a_fact(), id="b")
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("name", [OBJECTS, BATCHES])
async def test_the_object_stores_are_nats_own(world: NatsWorld, name: str) -> None:
    body = bytes(range(256)) * 40_000
    subject = subject_of(a_batch(0) if name == BATCHES else a_fact())
    async with world.connect() as bus:
        await bus.put_object(subject, "a plan", body)
        client = await nats.connect(world.server.url)
        store = await client.jetstream().object_store(name)
        assert (await store.get("a plan")).data == body
        await client.close()


async def test_payloads_that_others_put_are_read(world: NatsWorld) -> None:
    body = bytes(range(256)) * 2000
    client = await nats.connect(world.server.url)
    store = await client.jetstream().object_store(BATCHES)
    await store.put("another", body)
    await client.close()
    async with world.connect() as bus:
        found = await bus.get_object(subject_of(a_batch(0)), "another", sha256(body).hexdigest())
    assert found == body


async def test_what_a_failed_try_left_is_no_hindrance(world: NatsWorld) -> None:
    subject, size_bytes = subject_of(a_batch(0)), MAX_MESSAGE_BYTES // 2
    for name, body in (("one", bytes(1000)), ("two", bytes(size_bytes + 1000))):
        async with world.connect() as bus:
            left = f"$O.{BATCHES}.C.{nuid_of(subject, name)}"
            await bus.publish_live(left, body[:size_bytes])
            digest = await bus.put_object(subject, name, body)
            assert await bus.get_object(subject, name, digest) == body
    assert await chunks_of(world) == {"one": 1, "two": 2}
    async with world.connect() as bus:
        await bus.purge(attempt_batches("trace", E, "r1"))
    assert await chunks_of(world) == {}


async def chunks_of(world: NatsWorld) -> dict[str, int]:
    """Return how many places have chunks of each batch's object."""
    connection = Connection(OpenSettings(world.server.url), "tester")
    await connection.open(5.0)
    held = await Objects(connection).held("mlscope.v1.trace.>")
    await connection.close()
    return {name: len(subjects) for name, subjects in held.items()}


async def test_nobody_purges_what_the_log_refers_to(nats_server: NatsServer) -> None:
    await provision(settings_of(nats_server, "provisioner"))
    client = await nats.connect(
        nats_server.url,
        nkeys_seed_str=nats_server.seeds["provisioner"],
        inbox_prefix=b"_INBOX_provisioner",
    )
    with pytest.raises(nats.js.errors.APIError, match="purge"):
        await client.jetstream().purge_stream(f"OBJ_{OBJECTS}")
    await client.close()


async def test_the_buckets_are_nats_own(world: NatsWorld) -> None:
    async with world.connect() as bus:
        revision = await bus.put("catalog", "agent_a", b"1")
        client = await nats.connect(world.server.url)
        bucket = await client.jetstream().key_value("catalog")
        assert (await bucket.get("agent_a")).revision == revision
        await bucket.put("agent_a", b"2")
        entry = await bus.get("catalog", "agent_a")
        assert entry is not None
        assert entry.value == b"2"
        await bucket.delete("agent_a")
        assert await bus.get("catalog", "agent_a") is None
        await client.close()


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


async def test_provisioning_again_changes_what_is_set(nats_server: NatsServer) -> None:
    settings = settings_of(nats_server, "provisioner")
    await provision(settings)
    await provision(
        replace(settings, traces_max_bytes=1 << 20, lease_ttl_s=7.0, payloads_max_bytes=2 << 20)
    )
    client = await nats.connect(
        nats_server.url,
        nkeys_seed_str=nats_server.seeds["provisioner"],
        inbox_prefix=b"_INBOX_provisioner",
    )
    manager = client.jetstream()
    traces = (await manager.stream_info("TRACES")).config
    assert (traces.max_bytes, traces.discard, traces.allow_direct) == (1 << 20, "new", True)
    assert (traces.compression, traces.max_age) == ("s2", 0)
    assert (await manager.stream_info("KV_leases")).config.max_age == 7.0
    assert (await manager.stream_info("KV_catalog")).config.max_age == 0
    assert (await manager.stream_info("EVALUATIONS")).config.max_bytes == -1
    for name in (OBJECTS, BATCHES):
        store = (await manager.stream_info(f"OBJ_{name}")).config
        assert (store.max_bytes, store.discard) == (2 << 20, "new")
    recorder = (await manager.consumer_info("EVALUATIONS", "recorder")).config
    assert (recorder.ack_wait, recorder.max_deliver) == (30.0, -1)
    await client.close()


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


async def _no_answer(_: Asked) -> bytes | None:
    return None


async def test_a_key_of_another_server_is_refused_at_once(
    nats_server: NatsServer, data_folder: Path
) -> None:
    with NatsServer(data_folder) as other:
        settings = replace(settings_of(other, "agent"), nats_url=nats_server.url)
        with pytest.raises(NotPermitted):
            async with connect(settings, "agent", timeout_s=60.0):
                pass


async def test_an_old_server_is_refused() -> None:
    left = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.11.9","max_payload":1048576,"headers":true}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ServerTooOld, match=r"2\.11\.9"):
        await provision(Settings(nats_url=f"nats://127.0.0.1:{port}"))
    await left.wait()
    server.close()
