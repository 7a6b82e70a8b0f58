"""An agent's hold on its name, among other starts of the same name."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.streams import BUCKETS
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.agent import Lease
from schemas.encoding.codec import decode_body
from services.agent.errors import NameTaken
from services.agent.host.folders import own_folder
from services.agent.host.leasing import HeldLease, LeaseClaim


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    """Open a bus whose leases last a fifth of a second."""
    buckets = [replace(each, ttl_s=0.2) if each.ttl_s else each for each in BUCKETS]
    async with connect(MemoryServer(buckets=buckets), "agent") as bus:
        yield bus


@contextlib.asynccontextmanager
async def living(bus: Bus, agent: str, incarnation: str) -> AsyncIterator[HeldLease]:
    """Hold a name by renewing its lease again and again."""

    async def renew() -> None:
        while True:
            await tenure.renew(())
            await asyncio.sleep(0.02)

    tenure = HeldLease(bus, agent, incarnation)
    await tenure.claim(lambda _: False, 0.01)
    renewing = asyncio.create_task(renew())
    yield tenure
    renewing.cancel()
    await asyncio.wait({renewing})


async def holder(bus: Bus, agent: str) -> str:
    """Return which start holds a name, '' for none."""
    entry = await bus.get("leases", f"agent-{agent}")
    return "" if entry is None else decode_body(Lease, entry.value or b"").incarnation


def a_claim(folder: Path, *, may_number: bool = False) -> LeaseClaim:
    return LeaseClaim("a1", folder, may_number=may_number, pause_s=0.05)


async def test_a_name_of_a_living_start_is_refused(bus: Bus, tmp_path: Path) -> None:
    async with living(bus, "a1", "i1") as first:
        with pytest.raises(NameTaken, match="MLSCOPE_AGENT_ID") as refused:
            await a_claim(tmp_path).acquire(bus, asyncio.Event())
        assert refused.value.incarnation == "i1"
        assert refused.value.agent == "a1"
        assert refused.value.host in str(refused.value)
        assert await holder(bus, "a1") == "i1"
        assert first.is_held


async def test_the_host_s_own_name_gets_a_number(bus: Bus, tmp_path: Path) -> None:
    async with living(bus, "a1", "i1"), living(bus, "a1-2", "i2"):
        claim = a_claim(tmp_path, may_number=True)
        tenure = await claim.acquire(bus, asyncio.Event())
        assert tenure is not None
        assert tenure.agent == "a1-3"
        assert await holder(bus, "a1-3") == tenure.incarnation


async def test_a_crashed_start_s_lease_is_waited_for(bus: Bus, tmp_path: Path) -> None:
    await HeldLease(bus, "a1", "i1").claim(lambda _: False, 0.01)
    tenure = await a_claim(tmp_path, may_number=True).acquire(bus, asyncio.Event())
    assert tenure is not None
    assert tenure.agent == "a1"
    assert await holder(bus, "a1") == tenure.incarnation


async def test_who_is_seen_dead_here_is_not_waited_for(tmp_path: Path) -> None:
    async with connect(MemoryServer(), "agent") as lasting:
        await HeldLease(lasting, "a1", "i1").claim(lambda _: False, 0.01)
        (tmp_path / "a1" / "i1").mkdir(parents=True)
        tenure = await a_claim(tmp_path).acquire(lasting, asyncio.Event())
        assert tenure is not None
        assert await holder(lasting, "a1") == tenure.incarnation


async def test_who_lives_here_is_not_taken_for_dead(bus: Bus, tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "a1", "i1")
    async with living(bus, "a1", "i1"):
        with pytest.raises(NameTaken):
            await a_claim(tmp_path).acquire(bus, asyncio.Event())
    folder.release()


async def test_a_lease_that_neither_runs_out_nor_is_renewed_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the broker was set back: the lease of a dead agent ends an hour late."""
    monkeypatch.setattr("services.agent.host.leasing._MOST_LOOKS", 3)
    async with connect(MemoryServer(), "agent") as lasting, asyncio.timeout(10):
        await HeldLease(lasting, "a1", "i1").claim(lambda _: False, 0.01)
        tenure = await a_claim(tmp_path).acquire(lasting, asyncio.Event())
        assert tenure is not None
        assert await holder(lasting, "a1") == tenure.incarnation


async def test_waiting_ends_when_it_is_to_stop(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with connect(MemoryServer(), "agent") as lasting:
        await HeldLease(lasting, "a1", "i1").claim(lambda _: False, 0.01)
        claiming = asyncio.create_task(a_claim(tmp_path).acquire(lasting, stop))
        await asyncio.sleep(0.05)
        stop.set()
        assert await claiming is None


async def test_a_lapsed_lease_is_had_again_and_that_is_told(bus: Bus) -> None:
    tenure = HeldLease(bus, "a1", "i1")
    await tenure.claim(lambda _: False, 0.01)
    assert not await tenure.renew(())
    await bus.delete("leases", "agent-a1")
    assert await tenure.renew(())
    assert not await tenure.renew(())
    assert await holder(bus, "a1") == "i1"


async def test_a_taken_lease_is_left_alone_until_it_is_free(bus: Bus) -> None:
    first = HeldLease(bus, "a1", "i1")
    await first.claim(lambda _: False, 0.01)
    await bus.delete("leases", "agent-a1")
    async with living(bus, "a1", "i2") as second:
        assert not await first.renew(())
        assert (first.is_held, await holder(bus, "a1")) == (False, "i2")
        await first.release()
        assert await holder(bus, "a1") == "i2"
    await second.release()
    assert await first.renew(())
    assert first.is_held
