"""Batches stay in their streams until a backup has them, unless they need room."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mlscope.backup.database import note_saved
from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.records import Held
from mlscope.bus.streams import STREAMS
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.bus import MemoryBus
from schemas.subjects import attempt_batches
from services.collector.evaluations import Evaluations
from services.collector.retention import Retention, last_to_leave, leaving_share
from services.collector.store import Store, migrate
from tests.services.collector.builders import a_completion, a_plan, a_request, a_start, a_trace
from tests.services.collector.test_recollecting import EMPTY, ROWS
from tests.services.collector.test_recording import running
from tests.services.collector.test_service import ALL_OF_A_RUN, Settings, World, collecting

TRACES = attempt_batches("trace", "e1", "r0")
RECORDED = [("recorded",)]
PURGED = "SELECT purged_at IS NOT NULL FROM run"


class Looking(World):
    """A world that counts how often the collector looked at what may leave."""

    looks = 0

    async def looked(self, count: int = 3) -> None:
        """Wait until the collector has looked, and decided, some times more."""
        seen = self.looks + count
        async with asyncio.timeout(60):
            while self.looks < seen:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def messages(self) -> int:
        """Return how many batches of spans the log has."""
        return len(await self.bus.read(TRACES))

    def saved(self, **sequences: int) -> None:
        """Note a backup of all settled runs, and of the streams up to `sequences`."""
        keys = [key for (key,) in self.ask("SELECT run_key FROM run")]
        note_saved(self.address, keys, sequences)


@pytest.fixture
async def world(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Looking]:
    migrate(database_url)
    streams = [replace(s, max_bytes=20_000) if s.name == "TRACES" else s for s in STREAMS]
    server = MemoryServer(streams=streams)
    async with connect(server, "agent") as bus:
        world = Looking(server, bus, database_url)
        purgeable = Store.purgeable

        def counted(store: Store) -> object:
            world.looks += 1
            return purgeable(store)

        monkeypatch.setattr(Store, "purgeable", counted)
        await world.say(a_request(), a_plan(), a_start())
        yield world


def settings(world: World, keep_bytes: int = 1 << 20) -> Settings:
    return Settings(world.address, purge_after_s=0.1, keep_unsaved_bytes=keep_bytes)


async def test_a_recorded_run_stays_in_the_log_until_a_backup_has_it(world: Looking) -> None:
    async with collecting(world.server, settings(world)):
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT state FROM run", RECORDED)
        await world.looked(8)
        assert (await world.messages(), world.ask(PURGED)) == (1, [(False,)])
        world.saved()
        await world.until(PURGED, [(True,)])
    assert await world.messages() == 0


async def test_batches_of_a_run_under_way_leave_once_a_backup_has_them(world: Looking) -> None:
    async with collecting(world.server, settings(world)):
        await world.say(*(a_trace(sequence) for sequence in range(4)))
        await world.until("SELECT count(*) FROM span", [(16,)])
        await world.looked(8)
        assert await world.messages() == 4
        last = [recorded.sequence for recorded in await world.bus.read(TRACES)]
        world.saved(TRACES=last[1])
        await until(world.messages, 2)
        await world.looked(4)
    assert [recorded.sequence for recorded in await world.bus.read(TRACES)] == last[2:]


async def until(count: Callable[[], Awaitable[int]], expected: int) -> None:
    """Wait until so many are counted."""
    async with asyncio.timeout(60):
        while await count() != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_beyond_the_bound_a_run_leaves_whole(world: Looking) -> None:
    """Its oldest batch is in the way; the others alone would rebuild nothing."""
    async with collecting(world.server, settings(world, keep_bytes=900)):
        await world.say(*ALL_OF_A_RUN, *(a_trace(sequence) for sequence in range(1, 5)))
        await world.say(a_completion())
        await world.until(PURGED, [(True,)])
    assert await world.messages() == 0


async def test_no_publisher_waits_for_what_is_kept(world: Looking) -> None:
    """Far more is published than the stream holds, and no backup is made."""
    async with collecting(world.server, settings(world)):
        async with asyncio.timeout(60):
            for sequence in range(120):
                while (await world.bus.held("TRACES")).size_bytes > 19_000:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                await world.say(a_trace(sequence))
        await world.until("SELECT count(DISTINCT batch) FROM span", [(120,)])


async def test_a_lost_database_gets_the_rows_of_old_runs_back(
    world: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.collector.recollecting._LOOK_EVERY_S", 0.02)
    async with collecting(world.server, settings(world)):
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT state FROM run", RECORDED)
        await world.looked(8)
    with psycopg.connect(world.address) as session:
        session.execute(EMPTY)
    async with collecting(world.server, settings(world)):
        await world.until(ROWS, [(4, 3, 1)])
        await world.until("SELECT state FROM run", RECORDED)


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "collector") as bus:
        yield bus


@pytest.fixture
def retention(bus: Bus, database_url: str) -> Iterator[Retention]:
    migrate(database_url)
    with closing(Retention(bus, database_url, Evaluations(bus), 0)) as retention:
        yield retention


async def test_only_what_is_acknowledged_makes_room(bus: Bus, retention: Retention) -> None:
    for sequence in range(2):
        await bus.publish(a_trace(sequence), id=f"t{sequence}")
    async with aclosing(bus.deliveries("spans", batch=2)) as deliveries:
        stored, unstored = await anext(deliveries)
        await stored.ack()
        async with running(retention.make_room(0.01)):
            while len(left := await bus.read(TRACES)) == 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert [each.sequence for each in left] == [unstored.recorded.sequence]
            assert await bus.read(TRACES) == left


async def test_a_bus_that_is_away_delays_what_makes_room_and_what_is_purged(
    retention: Retention, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    purge, failures = MemoryBus.purge, list[str]()

    async def away_at_first(bus: MemoryBus, subject: str, **more: Any) -> None:
        if len(failures) < 2:
            failures.append(subject)
            raise Unreachable("away")
        await purge(bus, subject, **more)

    monkeypatch.setattr(MemoryBus, "purge", away_at_first)
    await bus.publish(a_trace(0), id="t")
    async with aclosing(bus.deliveries("spans", batch=1)) as deliveries:
        (stored,) = await anext(deliveries)
        await stored.ack()
        async with running(retention.make_room(0.01)):
            while await bus.read(TRACES):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert len(failures) == 2


@pytest.mark.parametrize(
    ("sizes", "keep_bytes", "share"),
    [
        ((0, 0), 0, 0.0),
        ((60, 40), 100, 0.0),
        ((60, 40), 50, 0.5),
        ((60, 40), 0, 1.0),
        ((501, 0), 10_000, 1.0),
    ],
)
def test_the_share_that_leaves(sizes: tuple[int, int], keep_bytes: int, share: float) -> None:
    held = [Held(1, 9, size, 1000) for size in sizes]
    assert leaving_share(held, keep_bytes) == share


@pytest.mark.parametrize(
    ("share", "saved", "last"),
    [(0.0, 0, 0), (0.0, 12, 12), (0.5, 12, 15), (0.5, 18, 18), (1.0, 0, 20), (0.0, 21, 0)],
)
def test_the_last_message_that_leaves(share: float, saved: int, last: int) -> None:
    held = Held(first=11, last=20, size_bytes=100, max_bytes=1000)
    assert max(last_to_leave(held, share, saved) - 10, 0) == max(last - 10, 0)
