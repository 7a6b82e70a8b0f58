"""A stream taken from a real server and given back: all of it, or an error that names the step."""

import os
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mlscope.bus.errors import ServerRefused, Unreachable
from mlscope.bus.nats import snapshots
from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.snapshots import snapshot_stream
from schemas.agent import AgentDrained
from schemas.subjects import facts_of
from tests.contracts.worlds import NatsWorld, OpenSettings
from tests.mlscope.bus.nats.test_connection import GREETING, connected, greeting

FLEET = "FLEET"


@pytest.fixture
async def admin(world: NatsWorld) -> AsyncIterator[Admin]:
    admin = Admin(OpenSettings(world.server.url))
    await admin.open()
    try:
        yield admin
    finally:
        await admin.close()


async def taken(
    admin: Admin, world: NatsWorld, count: int = 3
) -> tuple[dict[str, Any], list[bytes]]:
    """Publish facts, acknowledge the first one, and return the snapshot of their stream."""
    async with world.connect("registry") as bus:
        for number in range(3):
            await bus.publish(AgentDrained(agent=f"a{number}"), id=f"d{number}")
        deliveries = bus.deliveries("registry", batch=1)
        (first,) = await anext(deliveries)
        await first.ack()
        await deliveries.aclose()
    chunks: list[bytes] = []
    return await admin.snapshot_stream(FLEET, chunks.append), chunks


async def test_a_stream_comes_back_with_its_facts_and_its_durables(
    world: NatsWorld, admin: Admin
) -> None:
    described, chunks = await taken(admin, world)
    assert described["state"]["messages"] == 3
    await admin.delete_stream(FLEET)
    await admin.restore_stream(FLEET, described, chunks)
    async with world.connect("registry") as bus:
        recorded = await bus.read(facts_of(AgentDrained))
        assert [(each.fact, each.sequence) for each in recorded] == [
            (AgentDrained(agent=f"a{number}"), number + 1) for number in range(3)
        ]
        assert await bus.acknowledged("registry") == 1


async def test_a_stream_that_exists_is_not_written_over(world: NatsWorld, admin: Admin) -> None:
    described, chunks = await taken(admin, world)
    with pytest.raises(ServerRefused, match="already in use"):
        await admin.restore_stream(FLEET, described, chunks)
    async with world.connect("registry") as bus:
        assert len(await bus.read(facts_of(AgentDrained))) == 3


async def test_a_snapshot_that_is_torn_restores_nothing(world: NatsWorld, admin: Admin) -> None:
    described, chunks = await taken(admin, world)
    await admin.delete_stream(FLEET)
    body = b"".join(chunks)
    with pytest.raises(ServerRefused, match=r"STREAM\.RESTORE\.FLEET"):
        await admin.restore_stream(FLEET, described, [body[: len(body) // 2]])
    assert FLEET not in await admin.stream_names()


async def test_a_stream_that_is_not_there_has_no_snapshot(admin: Admin) -> None:
    chunks: list[bytes] = []
    with pytest.raises(ServerRefused, match="stream not found"):
        await admin.snapshot_stream("NONE", chunks.append)
    assert chunks == []


async def test_an_error_of_who_takes_the_chunks_ends_the_snapshot_and_the_next_one_is_whole(
    world: NatsWorld, admin: Admin
) -> None:
    def full(_: bytes) -> None:
        raise OSError("disk full")

    await taken(admin, world)
    with pytest.raises(OSError, match="disk full"):
        await admin.snapshot_stream(FLEET, full)
    chunks: list[bytes] = []
    await admin.snapshot_stream(FLEET, chunks.append)
    assert chunks


async def test_a_server_that_sends_no_chunk_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "_CHUNK_WITHIN_S", 0.2)
    async with greeting(GREETING) as (greeter, settings), connected(settings) as connection:
        greeter.answer = {"config": {}, "state": {}}
        with pytest.raises(Unreachable, match=r"SNAPSHOT\.LOG: the snapshot stopped"):
            await snapshot_stream(connection, "LOG", bytes)


async def test_a_slow_reader_gets_a_whole_large_stream_once(world: NatsWorld) -> None:
    """With 8 MiB unread the server waits, and gives up where nobody subscribes to the snapshot."""
    sizes: list[int] = []

    def take_slowly(chunk: bytes) -> None:
        if not sizes:
            time.sleep(0.2)
        sizes.append(len(chunk))

    async with connected(OpenSettings(world.server.url)) as connection:
        stream = connection.client.jetstream()
        await stream.add_stream(name="LARGE", subjects=["large.>"])
        for _ in range(24):
            await stream.publish("large.a", os.urandom(1 << 19))
        before = connection.client.stats["in_bytes"]
        await snapshot_stream(connection, "LARGE", take_slowly)
        received = connection.client.stats["in_bytes"] - before
    assert 12 << 20 < sum(sizes) <= received < 13 << 20
