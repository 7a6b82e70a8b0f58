"""Buckets over NATS: its own layout, and watching through what a server says of a key."""

from contextlib import aclosing

import nats
import pytest

from mlscope.bus.errors import Unreachable
from mlscope.bus.nats.buckets import Buckets, bucket_stream, entry_of, key_subject
from mlscope.bus.nats.log import StoredMessage
from mlscope.bus.records import Entry
from tests.contracts.worlds import NatsWorld


def stored(**headers: str) -> StoredMessage:
    """Return a message of a bucket."""
    return StoredMessage("$KV.leases.agent-1", 7, headers, b"x")


def test_a_message_is_a_value_a_deletion_or_a_marker() -> None:
    assert entry_of("leases", stored()).value == b"x"
    gone = [stored(**{"KV-Operation": "DEL"}), stored(**{"Nats-Marker-Reason": "MaxAge"})]
    for each in gone:
        entry = entry_of("leases", each)
        assert (entry.key, entry.value, entry.revision) == ("agent-1", None, 7)


def test_places_are_nats_own() -> None:
    assert bucket_stream("leases") == "KV_leases"
    assert key_subject("leases", ">") == "$KV.leases.>"


async def test_what_was_gone_before_a_watch_is_no_news(world: NatsWorld) -> None:
    async with world.connect() as bus:
        await bus.put("catalog", "a", b"1")
        await bus.put("catalog", "b", b"1")
        await bus.delete("catalog", "a")
        async with aclosing(bus.watch("catalog")) as watching:
            first = [await anext(watching), await anext(watching)]
    assert [entry and entry.key for entry in first] == ["b", None]


async def test_a_key_deleted_while_the_watcher_was_away_is_told(world: NatsWorld) -> None:
    async with world.connect("watcher") as bus, aclosing(bus.watch("catalog")) as watching:
        await bus.put("catalog", "a", b"1")
        seen = [await anext(watching), await anext(watching)]
        assert any(entry and entry.key == "a" for entry in seen)
        await world.stop()
        await world.start()
        async with world.connect("writer") as writer:
            await writer.delete("catalog", "a")
        gone = await anext(watching)
    assert gone is not None
    assert (gone.key, gone.value) == ("a", None)


async def test_a_watch_outlives_a_comparison_without_an_answer(
    world: NatsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, failures = Buckets.changes, [Unreachable("busy")]

    async def failing_once(buckets: Buckets, bucket: str, after: int) -> list[Entry]:
        if failures:
            raise failures.pop()
        return await changes(buckets, bucket, after)

    monkeypatch.setattr(Buckets, "changes", failing_once)
    async with world.connect() as bus, aclosing(bus.watch("leases")) as watching:
        assert await anext(watching) is None
        await bus.put("leases", "agent-1", b"1")
        entry = await anext(watching)
    assert (entry and entry.key, failures) == ("agent-1", [])


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
