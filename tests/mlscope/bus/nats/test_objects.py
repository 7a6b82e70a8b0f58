"""The object stores over NATS: its own layout, and what a try that failed leaves."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import nats
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoSuchPayload, PayloadMismatch, SubjectTooLong
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.objects import Objects, place_of
from mlscope.bus.streams import BATCHES, MAX_MESSAGE_BYTES, OBJECTS
from schemas.message import Fact
from schemas.subjects import attempt_batches, subject_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.contracts.worlds import NatsWorld, OpenSettings
from tests.services.collector.builders import a_completion


def name_of(value: object) -> str | None:
    """Return the name of a fact, for the names of the tests that are about it."""
    return value.schema_name() if isinstance(value, Fact) else None


async def test_the_store_of_decisions_is_nats_own(world: NatsWorld) -> None:
    body = bytes(range(256)) * 40_000
    async with world.connect() as bus:
        await bus.put_object(subject_of(a_fact()), "a plan", body)
        client = await nats.connect(world.server.url)
        store = await client.jetstream().object_store(OBJECTS)
        assert (await store.get("a plan")).data == body
        await client.close()


async def test_what_a_failed_try_left_is_no_hindrance(world: NatsWorld) -> None:
    subject, size_bytes = subject_of(a_batch(0)), MAX_MESSAGE_BYTES // 2
    for name, body in (("one", bytes(1000)), ("two", bytes(size_bytes + 1000))):
        async with world.connect() as bus:
            left = f"$O.{BATCHES}.C.{place_of(subject, name).nuid}"
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
    held = await Objects(connection).chunks_by_payload("mlscope.v1.trace.>")
    await connection.close()
    return {name: len(subjects) for (_, name), subjects in held.items()}


@pytest.mark.parametrize(
    "description",
    [b"[", b"[]", b"{}", b'{"nuid": ">"}', b'{"nuid": "*"}', b'{"nuid": ["x"]}', b"[" * 100_000],
)
@pytest.mark.parametrize("fact", [a_fact(), a_completion(), a_batch(0)], ids=name_of)
async def test_a_description_that_cannot_be_used_is_none(
    world: NatsWorld, fact: Fact, description: bytes
) -> None:
    """Agents write descriptions: one must not end the service that reads it, nor read all."""
    subject = subject_of(fact)
    async with world.connect() as bus:
        await bus.put_object(subject, "another's", b"secret")
        await bus.ask(place_of(subject, "forged").description, description)
        with pytest.raises(NoSuchPayload):
            await bus.get_object(subject, "forged", "0" * 64)
        digest = await bus.put_object(subject, "forged", b"mine")
        assert await bus.get_object(subject, "forged", digest) == b"mine"


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("fact", [a_completion(), a_batch(0)], ids=name_of)
async def test_what_an_older_release_stored_is_read(
    world: NatsWorld, fact: Fact, chunks: int
) -> None:
    subject, parts = subject_of(fact), [b"%d" % number for number in range(chunks)]
    async with world.connect() as bus:
        for ending in ("", "~0123456789abcdef"):
            name = f"older{ending}"
            await store_as_before(bus, subject, name, parts, ending=ending)
            digest = hashlib.sha256(b"".join(parts)).hexdigest()
            assert await bus.get_object(subject, name, digest) == b"".join(parts)
            assert await bus.put_object(subject, name, b"".join(parts)) == digest
            assert await bus.get_object(subject, name, digest) == b"".join(parts)


async def test_what_an_older_release_stored_of_a_batch_is_purged_with_it(world: NatsWorld) -> None:
    purged, kept = (a_batch(0).model_copy(update={"run": run}) for run in ("r1", "r2"))
    async with world.connect() as bus:
        for number, fact in enumerate((purged, kept)):
            subject = subject_of(fact)
            await store_as_before(bus, subject, f"batch {number}", [b"one"])
            await bus.put_object(subject, f"new {number}", b"two")
        # A chunk with the name of another batch, which is to stay, and one of no fact at all.
        own = subject_of(purged).removeprefix("mlscope.v1.")
        for place in (own, own.replace("captured", "imagined")):
            await bus.ask(f"$O.{BATCHES}.C.{place}.{base64_of('batch 1')}", b"x")
        await bus.purge(attempt_batches("trace", E, "r1"))
        assert await bus.get_object(subject_of(kept), "batch 1", sha256_of(b"one")) == b"one"
        assert await bus.get_object(subject_of(kept), "new 1", sha256_of(b"two")) == b"two"
        await bus.purge(attempt_batches("trace", E, "r2"))
        assert (await bus.contents(f"OBJ_{BATCHES}")).size_bytes == 0


async def test_an_older_description_leads_to_no_chunks_of_others(world: NatsWorld) -> None:
    """Before 0.2, an agent could write any description."""
    theirs = subject_of(a_batch(0).model_copy(update={"agent": "a2"}))
    mine = subject_of(a_batch(0))
    async with world.connect() as bus:
        digest = await bus.put_object(theirs, "batch", b"rows")
        forged = json.dumps({"nuid": place_of(theirs, "batch").nuid, "size": 4}).encode()
        await bus.ask(f"$O.{BATCHES}.M.{base64_of('batch')}", forged)
        with pytest.raises(NoSuchPayload):
            await bus.get_object(mine, "batch", digest)
        assert await bus.get_object(theirs, "batch", digest) == b"rows"


async def store_as_before(
    bus: Bus, subject: str, name: str, parts: Sequence[bytes], *, ending: str = ""
) -> None:
    """Store a payload in the places of release 0.1, its nuid with an `ending` for a second try."""
    is_batch = ".trace." in subject
    store, token = BATCHES if is_batch else OBJECTS, base64_of(name)
    nuid = f"{subject.removeprefix('mlscope.v1.')}.{token}" if is_batch else token
    for part in parts:
        await bus.ask(f"$O.{store}.C.{nuid}{ending}", part)
    described = {"name": name, "nuid": f"{nuid}{ending}", "size": sum(map(len, parts))}
    await bus.ask(f"$O.{store}.M.{token}", json.dumps(described).encode())


def base64_of(name: str) -> str:
    """Return a name as a token of a subject."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def sha256_of(body: bytes) -> str:
    """Return the checksum of a body, in hex."""
    return hashlib.sha256(body).hexdigest()


async def test_a_chunk_with_any_name_is_no_hindrance(world: NatsWorld) -> None:
    subject = subject_of(a_batch(0))
    async with world.connect() as bus:
        await bus.publish_live(f"$O.{BATCHES}.C.{subject.removeprefix('mlscope.v1.')}.x", b"x")
        await bus.put_object(subject, "one", b"body")
        await bus.purge(attempt_batches("trace", E, "r1"))
    assert "one" not in await chunks_of(world)


async def test_a_subject_that_the_server_would_not_take_is_not_sent(world: NatsWorld) -> None:
    long_agent = subject_of(a_completion(agent="a" * 3700))
    async with world.connect() as bus:
        with pytest.raises(SubjectTooLong):
            await bus.put_object(subject_of(a_fact()), "x" * 3100, b"x")
        for subject, name in ((subject_of(a_fact()), "x" * 3100), (long_agent, "x")):
            with pytest.raises(NoSuchPayload):
                await bus.get_object(subject, name, "0" * 64)
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
