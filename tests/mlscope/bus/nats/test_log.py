"""The log over JetStream: errors in our words, reading by parts, following without gaps."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import nats
import pytest

from mlscope.bus.errors import (
    NotProvisioned,
    Unreachable,
)
from mlscope.bus.nats.batch_reads import AT_ONCE, LEAST_BYTES, MOST_BYTES
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import epoch_ns, last_on, read_on, tail
from mlscope.bus.nats.storing import MESSAGE_ID, store
from tests.contracts.worlds import NatsWorld, OpenSettings
from tests.mlscope.bus.nats.test_connection import GREETING, connected, greeting

SUBJECT = "mlscope.v1.trace.e1.r1.captured.a1"


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("2027-01-15T08:00:00Z", 1_800_000_000_000_000_000),
        ("2027-01-15T08:00:00.5Z", 1_800_000_000_500_000_000),
        ("2027-01-15T08:00:01.000000001Z", 1_800_000_001_000_000_001),
    ],
)
def test_times_of_the_server_are_read_to_the_nanosecond(text: str, time_ns: int) -> None:
    assert epoch_ns(text) == time_ns


@pytest.fixture
async def connection(world: NatsWorld) -> AsyncIterator[Connection]:
    """Connect to a provisioned server."""
    async with connected(OpenSettings(world.server.url)) as opened:
        yield opened


async def put(connection: Connection, body: bytes, **headers: str) -> int:
    """Store a message."""
    return await store(connection, SUBJECT, body, headers=headers)


async def test_a_stream_that_is_missing_is_named() -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings, 0.2) as connection:
        greeter.answer = None
        with pytest.raises(NotProvisioned, match="trace"):
            await put(connection, b"")
        with pytest.raises(NotProvisioned, match="TRACES"):
            await read_on(connection, "TRACES", SUBJECT, 0)


async def test_much_is_read_in_parts(connection: Connection) -> None:
    for n in range(7):
        await put(connection, bytes(500_000), **{MESSAGE_ID: str(n)})
    sequences: list[int] = []
    after, more = 0, 1
    while more:
        found, more = await read_on(connection, "TRACES", SUBJECT, after)
        sequences += [stored.sequence for stored in found]
        after = sequences[-1]
    assert sequences == list(range(1, 8))
    assert await read_on(connection, "TRACES", SUBJECT, after) == ([], 0)


async def test_a_server_that_is_behind_is_asked_for_little_at_a_time() -> None:
    """It would queue whatever it is asked for, also for those who no longer wait."""
    async with greeting(GREETING) as (greeter, settings), connected(settings, 0.5) as connection:
        connection.attempt_s = 0.1
        reads = [read_on(connection, "TRACES", SUBJECT, 0) for _ in range(20)]
        await asyncio.gather(*reads, return_exceptions=True)
        bodies = [json.loads(line) for line in greeter.said if line.startswith(b"{")]
    sizes_bytes = [body["max_bytes"] for body in bodies if "max_bytes" in body]
    assert sizes_bytes.count(MOST_BYTES) == AT_ONCE
    assert sizes_bytes[0] == MOST_BYTES
    assert sizes_bytes[-1] == LEAST_BYTES


async def test_batches_are_large_again_once_the_server_answers(connection: Connection) -> None:
    await put(connection, bytes(500_000))
    for _ in range(9):
        with pytest.raises(Unreachable):
            async with connection.batch_reads.turn():
                raise Unreachable("busy")
    sizes_bytes = []
    for _ in range(9):
        # A message that is larger than a batch is a batch of its own.
        (stored,), _ = await read_on(connection, "TRACES", SUBJECT, 0)
        assert len(stored.body) == 500_000
        async with connection.batch_reads.turn() as max_bytes:
            sizes_bytes.append(max_bytes)
    assert sizes_bytes[:2] == [2 * LEAST_BYTES, 8 * LEAST_BYTES]
    assert sizes_bytes[-1] == MOST_BYTES


async def test_the_last_on_a_subject(connection: Connection) -> None:
    assert await last_on(connection, "TRACES", SUBJECT) is None
    for n in range(3):
        await put(connection, b"%d" % n, **{MESSAGE_ID: str(n)})
    found = await last_on(connection, "TRACES", SUBJECT)
    assert found is not None
    assert (found.body, found.sequence, found.headers[MESSAGE_ID]) == (b"2", 3, "2")


async def test_following_goes_on_over_what_was_purged(
    world: NatsWorld, connection: Connection
) -> None:
    client = await nats.connect(world.server.url)
    async with aclosing(tail(connection, "TRACES", SUBJECT, 0)) as following:
        await put(connection, b"1")
        first = await anext(following)
        assert await anext(following) is None
        await client.jetstream().purge_stream("TRACES")
        await put(connection, b"2")
        second = await anext(following)
    await client.close()
    assert first is not None
    assert second is not None
    assert [(each.sequence, each.body) for each in (first, second)] == [(1, b"1"), (2, b"2")]
