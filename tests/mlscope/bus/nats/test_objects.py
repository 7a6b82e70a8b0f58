"""The object stores over NATS: its own layout, and what a try that failed leaves."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest

from mlscope.bus.errors import NoSuchPayload, PayloadMismatch, SubjectTooLong
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.objects import Objects, nuid_of
from mlscope.bus.streams import BATCHES, MAX_MESSAGE_BYTES, OBJECTS
from schemas.subjects import attempt_batches, subject_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.contracts.worlds import NatsWorld, OpenSettings


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
    held = await Objects(connection).chunks_by_name("mlscope.v1.trace.>")
    await connection.close()
    return {name: len(subjects) for name, subjects in held.items()}


@pytest.mark.parametrize(
    "description",
    [b"[", b"[]", b"{}", b'{"nuid": ">"}', b'{"nuid": "*"}', b'{"nuid": ["x"]}', b"[" * 100_000],
)
async def test_a_description_that_cannot_be_used_is_none(
    world: NatsWorld, description: bytes
) -> None:
    """Agents write descriptions: one must not end the service that reads it, nor read all."""
    subject = subject_of(a_fact())
    token = base64.urlsafe_b64encode(b"forged").decode()
    async with world.connect() as bus:
        await bus.put_object(subject, "another's", b"secret")
        await bus.publish_live(f"$O.{OBJECTS}.M.{token}", description)
        with pytest.raises(NoSuchPayload):
            await bus.get_object(subject, "forged", "0" * 64)
        digest = await bus.put_object(subject, "forged", b"mine")
        assert await bus.get_object(subject, "forged", digest) == b"mine"


async def test_a_chunk_with_any_name_is_no_hindrance(world: NatsWorld) -> None:
    subject = subject_of(a_batch(0))
    async with world.connect() as bus:
        await bus.publish_live(f"$O.{BATCHES}.C.{subject.removeprefix('mlscope.v1.')}.x", b"x")
        await bus.put_object(subject, "one", b"body")
        await bus.purge(attempt_batches("trace", E, "r1"))
    assert "one" not in await chunks_of(world)


async def test_a_subject_that_the_server_would_not_take_is_not_sent(world: NatsWorld) -> None:
    async with world.connect() as bus:
        with pytest.raises(SubjectTooLong):
            await bus.get_object(subject_of(a_fact()), "x" * 3100, "0" * 64)
        await bus.put_object(subject_of(a_fact()), "after it", b"the connection is up")


async def test_an_object_that_comes_late_is_waited_for(world: NatsWorld) -> None:
    """A server of a cluster may know the fact before it knows the object that the fact names."""
    subject, body = subject_of(a_fact()), b"late"
    digest = hashlib.sha256(body).hexdigest()
    async with objects_of(world, servers=2) as objects, world.connect() as bus:
        reading = asyncio.create_task(objects.get(subject, "late", digest))
        await asyncio.sleep(0.03)
        await bus.put_object(subject, "late", body)
        assert await reading == body


@pytest.mark.parametrize(("servers", "name"), [(1, "absent"), (1, "whole"), (2, "whole")])
async def test_what_cannot_become_right_is_not_waited_for(
    world: NatsWorld, monkeypatch: pytest.MonkeyPatch, servers: int, name: str
) -> None:
    """One server knows all that it stores, and a whole object with another hash stays so."""
    monkeypatch.setattr("mlscope.bus.nats.objects._FOLLOW_S", (3600.0,))
    subject = subject_of(a_fact())
    async with world.connect() as bus:
        await bus.put_object(subject, "whole", b"whole")
    async with asyncio.timeout(10), objects_of(world, servers=servers) as objects:
        with pytest.raises(NoSuchPayload if name == "absent" else PayloadMismatch):
            await objects.get(subject, name, "0" * 64)


@asynccontextmanager
async def objects_of(world: NatsWorld, *, servers: int) -> AsyncIterator[Objects]:
    """Lend the stores over a connection that knows this number of servers, all the same."""
    places = [f"{world.server.url}/{number}" for number in range(servers)]
    connection = Connection(OpenSettings(",".join(places)), "tester")
    await connection.open(5.0)
    assert len(connection.client.servers) == servers
    yield Objects(connection)
    await connection.close()
