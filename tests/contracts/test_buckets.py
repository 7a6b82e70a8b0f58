"""Buckets: the newest value of a key, guarded, watched, and gone when its lease runs out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict
from mlscope.bus.records import Entry
from tests.contracts.worlds import World


async def _seen(watching: AsyncIterator[Entry | None], within_s: float = 10.0) -> Entry | None:
    async with asyncio.timeout(within_s):
        return await anext(watching)


async def test_the_newest_value_is_kept(bus: Bus) -> None:
    first = await bus.put("catalog", "agent_a", b"1")
    second = await bus.put("catalog", "agent_a", b"2")
    assert second > first
    assert await bus.get("catalog", "agent_a") == Entry("catalog", "agent_a", b"2", second)


async def test_a_key_nobody_set_is_not_there(bus: Bus) -> None:
    assert await bus.get("catalog", "agent_a") is None


async def test_a_deleted_key_is_gone(bus: Bus) -> None:
    await bus.put("catalog", "agent_a", b"1")
    await bus.delete("catalog", "agent_a")
    assert await bus.get("catalog", "agent_a") is None


async def test_a_guarded_write_needs_the_newest_revision(bus: Bus) -> None:
    first = await bus.put("leases", "issuer-1", b"1", revision=0)
    second = await bus.put("leases", "issuer-1", b"2", revision=first)
    with pytest.raises(Conflict):
        await bus.put("leases", "issuer-1", b"3", revision=first)
    assert await bus.get("leases", "issuer-1") == Entry("leases", "issuer-1", b"2", second)


async def test_a_new_key_can_be_claimed_once(bus: Bus) -> None:
    claims = [bus.put("leases", "issuer-1", str(n).encode(), revision=0) for n in range(10)]
    ends = await asyncio.gather(*claims, return_exceptions=True)
    assert sum(isinstance(end, int) for end in ends) == 1
    assert sum(isinstance(end, Conflict) for end in ends) == 9


async def test_a_deleted_key_can_be_claimed_anew(bus: Bus) -> None:
    await bus.put("leases", "issuer-1", b"1", revision=0)
    await bus.delete("leases", "issuer-1")
    assert await bus.put("leases", "issuer-1", b"2", revision=0)


async def test_a_watch_tells_what_is_then_what_comes(bus: Bus) -> None:
    await bus.put("catalog", "a", b"1")
    await bus.put("catalog", "b", b"2")
    await bus.delete("catalog", "a")
    async with aclosing(bus.watch("catalog")) as watching:
        assert await _seen(watching) == Entry("catalog", "b", b"2", 2)
        assert await _seen(watching) is None
        revision = await bus.put("catalog", "c", b"3")
        assert await _seen(watching) == Entry("catalog", "c", b"3", revision)
        await bus.delete("catalog", "b")
        gone = await _seen(watching)
        assert gone is not None
        assert (gone.key, gone.value) == ("b", None)


async def test_the_changes_beyond_a_revision_are_told(bus: Bus) -> None:
    await bus.put("catalog", "a", b"1")
    second = await bus.put("catalog", "b", b"2")
    assert await bus.changes("catalog", after=second) == []
    third = await bus.put("catalog", "c", b"3")
    await bus.delete("catalog", "a")
    told = await bus.changes("catalog", after=second)
    assert [(each.key, each.value) for each in told] == [("c", b"3"), ("a", None)]
    assert third == told[0].revision < told[1].revision
    assert len(await bus.changes("catalog", after=0)) == 3


async def test_a_lease_that_runs_out_is_seen(bus: Bus) -> None:
    async with aclosing(bus.watch("leases")) as watching:
        assert await _seen(watching) is None
        await bus.put("leases", "agent-1", b"alive")
        alive, gone = await _seen(watching), await _seen(watching)
    assert alive is not None
    assert gone is not None
    assert (alive.key, alive.value) == ("agent-1", b"alive")
    assert (gone.key, gone.value) == ("agent-1", None)
    assert await bus.get("leases", "agent-1") is None
    assert await bus.put("leases", "agent-1", b"again", revision=0)


async def test_a_renewed_lease_holds(bus: Bus) -> None:
    async with aclosing(bus.watch("leases")) as watching:
        assert await _seen(watching) is None
        for n in range(8):
            await bus.put("leases", "agent-1", str(n).encode())
            seen = await _seen(watching)
            assert seen is not None
            assert seen.value == str(n).encode()
            await asyncio.sleep(0.2)


async def test_a_lease_that_runs_out_while_the_server_is_away_is_seen(world: World) -> None:
    async with world.connect() as bus, aclosing(bus.watch("leases")) as watching:
        await bus.put("leases", "agent-1", b"alive")
        while (await _seen(watching)) is not None:
            pass
        await world.stop()
        await asyncio.sleep(1.2)
        await world.start()
        gone = await _seen(watching)
        assert gone is not None
        assert (gone.key, gone.value) == ("agent-1", None)
