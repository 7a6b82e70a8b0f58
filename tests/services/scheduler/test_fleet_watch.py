"""What a scheduler sees beside the log, over a bus: the catalog, leases, and its own."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.records import Entry
from mlscope.bus.wrapping import WrappedBus
from mlscope.tasks import end_tasks
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.agent import AgentAnnounced, Lease
from schemas.encoding.codec import decode_body, encode_body
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.fleet_watch import FleetWatch
from services.scheduler.placement.fleet import Limits
from tests.services.scheduler.samples import an_agent


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "scheduler") as lent:
        yield lent


@pytest.fixture
async def watch(bus: Bus) -> AsyncIterator[FleetWatch]:
    """Return a watch that is watched."""
    made = FleetWatch(bus, EvaluationIndex(), "s1", Limits(), heartbeat_s=0.01)
    tasks = [asyncio.create_task(each) for each in (made.watch_catalog(), made.watch_leases())]
    yield made
    await end_tasks(tasks)


async def changed(watch: FleetWatch) -> None:
    async with asyncio.timeout(60):
        await watch.changed.wait()
    watch.changed.clear()


async def issuers_become(watch: FleetWatch, names: set[str]) -> None:
    for _ in range(1000):
        if watch.fleet().issuers == names:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not {names}: {watch.fleet().issuers}")


async def test_the_catalog_is_known_once_all_that_was_there_is_seen(
    bus: Bus, watch: FleetWatch
) -> None:
    await bus.put("catalog", "agent_a1", encode_body(an_agent("a1"), json_text=True))
    async with asyncio.timeout(60):
        await watch.catalog_known.wait()
        await changed(watch)
    assert watch.fleet().why_gone("a1", "i1") == ""
    lost = encode_body(an_agent("a1", state="lost"), json_text=True)
    await bus.put("catalog", "agent_a1", lost)
    await changed(watch)
    assert watch.fleet().why_gone("a1", "i1") == "agent a1 was lost"


async def test_an_entry_that_says_nothing_new_is_no_change(bus: Bus, watch: FleetWatch) -> None:
    body = encode_body(an_agent("a1"), json_text=True)
    await bus.put("catalog", "agent_a1", body)
    await changed(watch)
    await bus.put("catalog", "agent_a1", body)
    await bus.put("catalog", "agent_a2", b"nonsense")
    await bus.put("catalog", "agent_a3", encode_body(an_agent("a3"), json_text=True))
    await changed(watch)
    assert [each.announcement.agent for each in watch.fleet().catalog.agents] == ["a1", "a3"]
    assert not watch.changed.is_set()


class Lagging(WrappedBus):
    """A bus whose watches tell nothing until they are let."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.is_let = asyncio.Event()

    async def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Hold back what is told."""
        async for entry in self._bus.watch(bucket):
            await self.is_let.wait()
            yield entry


@asynccontextmanager
async def lagging(bus: Bus) -> AsyncIterator[tuple[FleetWatch, asyncio.Event]]:
    """Lend a watch whose catalog is told of once the event is set."""
    late: Any = Lagging(bus)
    watch = FleetWatch(late, EvaluationIndex(), "s1", Limits(), heartbeat_s=0.01)
    watching = asyncio.create_task(watch.watch_catalog())
    yield watch, late.is_let
    await end_tasks([watching])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no wait for the catalog end by its clock."""
    monkeypatch.setattr("services.scheduler.fleet_watch._CATCH_UP_S", 60.0)


async def is_waiting(task: "asyncio.Task[None]") -> bool:
    """Tell whether a task still waits after the loop has turned often."""
    for _ in range(50):
        await asyncio.sleep(0)
    return not task.done()


@pytest.mark.usefixtures("patient")
async def test_who_catches_up_has_seen_what_the_bucket_held_when_asked(bus: Bus) -> None:
    await bus.put("catalog", "gone", b"{}")
    await bus.delete("catalog", "gone")
    async with lagging(bus) as (watch, is_let):
        await bus.put("catalog", "agent_a1", encode_body(an_agent("a1"), json_text=True))
        catching_up = asyncio.create_task(watch.catch_up())
        assert await is_waiting(catching_up)
        is_let.set()
        await catching_up
        assert [each.announcement.agent for each in watch.fleet().catalog.agents] == ["a1"]
        await bus.put("catalog", "gone", b"{}")
        await bus.delete("catalog", "gone")
        await watch.catch_up()


@pytest.mark.usefixtures("patient")
async def test_who_catches_up_waits_for_the_registry_to_show_who_announced_itself(bus: Bus) -> None:
    said = AgentAnnounced(agent="a1", announcement=an_agent("a1").announcement)
    async with lagging(bus) as (watch, is_let):
        is_let.set()
        await bus.publish(said, id="said")
        catching_up = asyncio.create_task(watch.catch_up())
        assert await is_waiting(catching_up)
        ((delivery,),) = [await anext(bus.deliveries("registry"))]
        await bus.put("catalog", "agent_a1", encode_body(an_agent("a1"), json_text=True))
        await delivery.ack()
        await catching_up
        assert [each.announcement.agent for each in watch.fleet().catalog.agents] == ["a1"]


async def test_a_registry_that_shows_nothing_is_not_waited_for_for_ever(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.scheduler.fleet_watch._CATCH_UP_S", 0.05)
    said = AgentAnnounced(agent="a1", announcement=an_agent("a1").announcement)
    await bus.publish(said, id="said")
    async with lagging(bus) as (watch, _), asyncio.timeout(60):
        await watch.catch_up()


class Counting(WrappedBus):
    """A bus that counts how often it was asked how far the registry is, and answers once let."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.looks = 0
        self.is_away = False
        self.is_let = asyncio.Event()
        self.is_let.set()

    async def acknowledged(self, work: str) -> int:
        """Count, and ask."""
        self.looks += 1
        await self.is_let.wait()
        if self.is_away:
            raise Unreachable("away")
        return await self._bus.acknowledged(work)


@pytest.fixture
def counting(bus: Bus) -> tuple[FleetWatch, Any]:
    """Lend a watch and its bus, which counts."""
    counted: Any = Counting(bus)
    return FleetWatch(counted, EvaluationIndex(), "s1", Limits(), heartbeat_s=0.01), counted


def catching_up(watch: FleetWatch, number: int) -> list["asyncio.Task[None]"]:
    """Return tasks that catch up at a time."""
    return [asyncio.create_task(watch.catch_up()) for _ in range(number)]


@pytest.mark.usefixtures("patient")
async def test_who_asks_while_a_look_runs_shares_the_next_one(
    counting: tuple[FleetWatch, Any],
) -> None:
    watch, counted = counting
    counted.is_let.clear()
    (first,) = catching_up(watch, 1)
    assert await is_waiting(first)
    later = catching_up(watch, 64)
    assert await is_waiting(later[0])
    assert counted.looks == 1
    later[0].cancel()
    counted.is_let.set()
    async with asyncio.timeout(60):
        await asyncio.gather(first, *later[1:])
    assert counted.looks == 2


async def test_many_who_catch_up_with_a_registry_that_shows_nothing_look_together(
    bus: Bus, counting: tuple[FleetWatch, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.scheduler.fleet_watch._CATCH_UP_S", 0.2)
    monkeypatch.setattr("services.scheduler.fleet_watch._POLL_S", 3600.0)
    watch, counted = counting
    said = AgentAnnounced(agent="a1", announcement=an_agent("a1").announcement)
    await bus.publish(said, id="said")
    async with asyncio.timeout(60):
        await asyncio.gather(*catching_up(watch, 64))
    assert counted.looks == 1


@pytest.mark.usefixtures("patient")
async def test_a_look_that_fails_fails_those_who_share_it_alone(
    counting: tuple[FleetWatch, Any],
) -> None:
    watch, counted = counting
    counted.is_away = True
    ended = await asyncio.gather(*catching_up(watch, 3), return_exceptions=True)
    assert [type(each) for each in ended] == [Unreachable] * 3
    counted.is_away = False
    await watch.catch_up()
    assert counted.looks == 2


async def test_an_instance_counts_itself_among_the_issuers_without_a_lease(
    watch: FleetWatch,
) -> None:
    assert watch.fleet().issuers == {"s1"}


async def test_another_instance_counts_while_it_holds_its_lease(
    bus: Bus, watch: FleetWatch
) -> None:
    other = FleetWatch(bus, EvaluationIndex(), "s2", Limits(), heartbeat_s=0.01)
    await other.renew()
    entry = await bus.get("leases", "issuer-s2")
    assert entry is not None
    assert entry.value is not None
    assert decode_body(Lease, entry.value).holder == "s2"
    await issuers_become(watch, {"s1", "s2"})
    await other.release()
    await issuers_become(watch, {"s1"})
    assert await bus.get("leases", "issuer-s2") is None


async def test_a_lease_that_cannot_be_renewed_is_tried_again(
    bus: Bus, watch: FleetWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, faults = bus.put, 3

    async def fails_first(*told: object, **more: object) -> int:
        nonlocal faults
        if faults:
            faults -= 1
            raise Unreachable("away")
        return await put(*told, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(bus, "put", fails_first)
    holding = asyncio.create_task(watch.hold_lease())
    for _ in range(1000):
        if await bus.get("leases", "issuer-s1") is not None:
            break
        await asyncio.sleep(0.01)
    holding.cancel()
    assert faults == 0
    assert await bus.get("leases", "issuer-s1") is not None
