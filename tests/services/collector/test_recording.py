"""A recorder alone: how long it waits for batches, and which messages make room."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

import psycopg
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.delivery import MemoryDelivery
from schemas.run import RunIncomplete
from schemas.subjects import attempt_batches, facts_of
from services.collector.completeness import Progress
from services.collector.evaluations import Evaluations
from services.collector.recording import AttemptRecorder
from services.collector.runs import run_row
from services.collector.store import Store, migrate
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_request,
    a_start,
    a_trace,
)


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "collector") as bus:
        await bus.publish(a_request(), id="r")
        await bus.publish(a_plan(), id="p")
        await bus.publish(a_start(), id="s")
        yield bus


@pytest.fixture
def recorder(bus: Bus, database_url: str) -> Iterator[AttemptRecorder]:
    migrate(database_url)
    with closing(AttemptRecorder(bus, database_url, Evaluations(bus))) as recorder:
        yield recorder


def _end_a_run_hours_ago(database_url: str, hours: int) -> None:
    with closing(Store(database_url)) as store:
        store.end_run(run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0"))
    with psycopg.connect(database_url) as session:
        session.execute("UPDATE run SET ended_at = now() - make_interval(hours => %s)", (hours,))


async def test_a_step_of_the_databases_clock_gives_up_no_batch(
    bus: Bus, recorder: AttemptRecorder, database_url: str
) -> None:
    """Its clock steps by hours: as if what ended just now had ended then."""
    _end_a_run_hours_ago(database_url, 72)
    looks: asyncio.Queue[float] = asyncio.Queue()

    def was_behind(within_s: float) -> bool:
        looks.put_nowait(within_s)
        return False

    announcing = asyncio.create_task(recorder.announce(60.0, was_behind))
    async with asyncio.timeout(30):
        assert [await looks.get() for _ in range(3)] == [60.0] * 3
    assert await bus.read(facts_of(RunIncomplete)) == []
    announcing.cancel()
    await asyncio.wait([announcing])


async def test_while_savers_are_behind_missing_batches_have_ten_times_as_long(
    bus: Bus, recorder: AttemptRecorder, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _end_a_run_hours_ago(database_url, 0)
    waited_s = dict.fromkeys((a.run_key for a in recorder._store.waiting()), 5 * 3600.0)
    monkeypatch.setattr(Progress, "waited_s", lambda *_: waited_s)
    looks: asyncio.Queue[float] = asyncio.Queue()
    behind = True

    def was_behind(within_s: float) -> bool:
        looks.put_nowait(within_s)
        return behind

    announcing = asyncio.create_task(recorder.announce(3600.0, was_behind))
    async with asyncio.timeout(30):
        assert [await looks.get() for _ in range(3)] == [3600.0] * 3
        assert await bus.read(facts_of(RunIncomplete)) == []
        behind = False
        while not await bus.read("mlscope.v1.run.e1.r0.incomplete"):
            await looks.get()
    announcing.cancel()
    await asyncio.wait([announcing])


async def test_an_end_that_cannot_be_acknowledged_comes_again(
    bus: Bus, recorder: AttemptRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_tried = asyncio.Event()

    async def away(*_: Any) -> None:
        was_tried.set()
        raise Unreachable("away")

    monkeypatch.setattr(MemoryDelivery, "ack", away)
    monkeypatch.setattr(MemoryDelivery, "retry", away)
    await bus.publish(a_completion(), id="c")
    recording = asyncio.create_task(recorder.record())
    async with asyncio.timeout(60):
        await was_tried.wait()
    await asyncio.sleep(0)
    assert not recording.done()
    recording.cancel()
    await asyncio.wait([recording])


async def test_only_what_is_acknowledged_makes_room(bus: Bus, recorder: AttemptRecorder) -> None:
    traces = attempt_batches("trace", "e1", "r0")
    for sequence in range(2):
        await bus.publish(a_trace(sequence), id=f"t{sequence}")
    async with aclosing(bus.deliveries("spans", batch=2)) as deliveries:
        stored, unstored = await anext(deliveries)
        await stored.ack()
        making_room = asyncio.create_task(recorder.make_room(0.01))
        async with asyncio.timeout(30):
            while len(left := await bus.read(traces)) == 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert [each.sequence for each in left] == [unstored.recorded.sequence]
        assert await bus.read(traces) == left
    making_room.cancel()
    await asyncio.wait([making_room])
