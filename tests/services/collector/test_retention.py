"""Batches stay in their streams until a backup has them, unless they need room."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mlscope.backup.database import note_saved
from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.records import StreamContents
from mlscope.bus.streams import STREAMS
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.bus import MemoryBus
from schemas.run import Tally
from schemas.subjects import attempt_batches
from services.collector.evaluations import Evaluations
from services.collector.retention import Retention, last_to_leave, leaving_share
from services.collector.store import Store, migrate
from tests.services.collector.builders import (
    a_completion,
    a_plan,
    a_request,
    a_start,
    a_trace,
    some_outputs,
    some_queries,
)
from tests.services.collector.test_holdings import store_run
from tests.services.collector.test_recollecting import EMPTY, ROWS
from tests.services.collector.test_recording import running
from tests.services.collector.test_service import ALL_OF_A_RUN, Settings, World, collecting

TRACES = attempt_batches("trace", "e1", "r0")
RECORDED = [("recorded",)]
PURGED = "SELECT purged_at IS NOT NULL FROM run"
OF_FOUR_BATCHES = Tally(
    trace_batches=4, query_batches=1, output_batches=1, spans=16, queries=3, outputs=2
)


class Looking(World):
    """A world that counts how often each loop of the collector looked at what may leave."""

    looks: Counter[str]

    async def looked(self, count: int = 3) -> None:
        """Wait until both loops have looked, and decided, some times more."""
        before = dict(self.looks)
        async with asyncio.timeout(60):
            while any(self.looks[name] < before[name] + count for name in before):  # noqa: ASYNC110
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
        world.looks = Counter(purgeable=0, saved_up_to=0)

        def counted(name: str, look: Callable[[Store], object]) -> Callable[[Store], object]:
            def looking(store: Store) -> object:
                world.looks[name] += 1
                return look(store)

            return looking

        for name in dict(world.looks):
            monkeypatch.setattr(Store, name, counted(name, getattr(Store, name)))
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
        await world.say(some_outputs(), some_queries(), a_completion(tally=OF_FOUR_BATCHES))
        await world.until("SELECT state FROM run", RECORDED)
        await world.looked(8)
        assert [recorded.sequence for recorded in await world.bus.read(TRACES)] == last[2:]
        world.saved()
        await world.until(PURGED, [(True,)])
    assert await world.messages() == 0


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
                while (await world.bus.contents("TRACES")).size_bytes > 19_000:  # noqa: ASYNC110
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


async def test_held_bytes_are_known_at_once(bus: Bus, retention: Retention) -> None:
    await bus.publish(a_trace(), id="t")
    async with running(retention.make_room(3600)):
        while not retention.held_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_nothing_leaves_a_stream_that_never_had_a_message(
    retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may arrive between look and purge, and a purge up to 0 is one of all."""
    purges = list[str]()

    async def empty(*_: object) -> StreamContents:
        return StreamContents(first=0, last=0, size_bytes=0, max_bytes=1000)

    async def purge(_: MemoryBus, subject: str, **__: Any) -> None:
        purges.append(subject)

    monkeypatch.setattr(MemoryBus, "contents", empty)
    monkeypatch.setattr(MemoryBus, "purge", purge)
    await retention._let_go({"spans": 0, "queries": 0})
    assert purges == []


async def test_a_stream_made_anew_holds_what_no_backup_has(
    bus: Bus, retention: Retention, database_url: str
) -> None:
    """Its messages up to the number that was saved of the stream before would leave."""
    note_saved(database_url, [], {"TRACES": 500, "QUERIES": 0})
    await bus.publish(a_trace(), id="t")
    with closing(Store(database_url)) as store:
        async with running(retention.make_room(0.01)):
            while store.saved_up_to() != {"QUERIES": 0}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_each_run_that_the_log_lacks_a_batch_of_leaves(
    bus: Bus, retention: Retention, database_url: str
) -> None:
    """Also one that ended after a run of which the log has all."""
    for evaluation, batches in (("e1", 1), ("e2", 2)):
        store_run(database_url, evaluation, batches=batches)
        await bus.publish(a_trace(evaluation=evaluation), id=evaluation)
    with closing(Store(database_url)) as store:
        store.note_left_up_to("TRACES", 1)
        async with running(retention.purge(0.01)):
            while [attempt.evaluation for attempt in store.purgeable()] != ["e1"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    logged = [await bus.read(attempt_batches("trace", name, "r0")) for name in ("e1", "e2")]
    assert [len(messages) for messages in logged] == [1, 0]


async def test_of_attempts_that_wait_for_a_backup_the_newest_are_remembered(
    retention: Retention, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.collector.retention._MOST_WAITING", 2)
    for evaluation in ("e1", "e2", "e3"):
        store_run(database_url, evaluation)
    async with running(retention.purge(0.01)):
        while not retention._since_s:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert len(retention._since_s) == 2


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
    held = [StreamContents(1, 9, size, 1000) for size in sizes]
    assert leaving_share(held, keep_bytes) == share


@pytest.mark.parametrize(
    ("share", "saved", "last"),
    [(0.0, 0, 10), (0.0, 12, 12), (0.5, 12, 15), (0.5, 18, 18), (1.0, 0, 20), (0.0, 21, 10)],
)
def test_the_last_message_that_leaves(share: float, saved: int, last: int) -> None:
    """The first is 11: up to 10 means none."""
    held = StreamContents(first=11, last=20, size_bytes=100, max_bytes=1000)
    assert last_to_leave(held, share, saved) == last
