"""A recorder alone: how long it waits for batches, and what it buries."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.bus import MemoryBus
from mlscope.testing.memory_bus.delivery import MemoryDelivery
from schemas.run import RunIncomplete
from schemas.subjects import facts_of
from services.collector import recording
from services.collector.completeness import Progress
from services.collector.evaluations import Evaluations
from services.collector.recording import AttemptRecorder
from services.collector.runs import run_row
from services.collector.saving import TRIES_FOR_UNKNOWN
from services.collector.store import Store, migrate
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_request,
    a_start,
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

    async with running(recorder.announce(60.0, was_behind)):
        assert [await looks.get() for _ in range(3)] == [60.0] * 3
        assert await bus.read(facts_of(RunIncomplete)) == []


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


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop of the recorder for the time of a block, which ends within a minute."""
    task = asyncio.create_task(work)
    try:
        async with asyncio.timeout(60):
            yield
            assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have what is tried again come again at once; return which tries those were."""
    retry, tries = MemoryDelivery.retry, list[int]()

    async def retry_at_once(delivery: MemoryDelivery, _: float = 0.0) -> None:
        tries.append(delivery.tries)
        await retry(delivery, 0.01)

    monkeypatch.setattr(MemoryDelivery, "retry", retry_at_once)
    return tries


async def acknowledged(bus: Bus, sequence: int) -> None:
    """Return once the recorder has acknowledged up to a `sequence`."""
    while await bus.acknowledged("recorder") < sequence:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_an_end_that_comes_before_its_request_waits_for_it(
    recorder: AttemptRecorder, bus: Bus, at_once: list[int]
) -> None:
    early = a_completion().model_copy(update={"evaluation": "e2"})
    sequence = await bus.publish(early, id="early")
    async with running(recorder.record()):
        while len(at_once) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for number, fact in enumerate((a_request(), a_plan(), a_start())):
            await bus.publish(fact.model_copy(update={"evaluation": "e2"}), id=f"late{number}")
        await acknowledged(bus, sequence)
    assert [attempt.evaluation for attempt in recorder._store.waiting()] == ["e2"]
    assert await bus.read("mlscope.v1.dead.>") == []


async def test_ends_of_what_nobody_requested_are_buried_out_of_the_way_of_others(
    recorder: AttemptRecorder, bus: Bus, at_once: list[int]
) -> None:
    """Else a thousand of them, which any agent may publish, would keep every other end out."""
    for number in range(2):
        ghost = a_completion().model_copy(update={"evaluation": f"ghost{number}"})
        await bus.publish(ghost, id=f"g{number}")
    sequence = await bus.publish(a_completion(), id="c")
    async with running(recorder.record()):
        await acknowledged(bus, sequence)
    reasons = [letter.fact.model_dump()["reason"] for letter in await bus.read("mlscope.v1.dead.>")]
    assert sorted(reasons) == [f"evaluation ghost{number} is not in the log" for number in range(2)]
    assert len(at_once) == 2 * (TRIES_FOR_UNKNOWN - 1)
    assert [attempt.run for attempt in recorder._store.waiting()] == ["r0"]


async def test_an_end_that_breaks_the_recorder_twice_is_buried_and_the_next_one_is_recorded(
    recorder: AttemptRecorder, bus: Bus, at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(fact: Any, *rest: Any) -> Any:
        if fact.run == "cursed":
            raise ZeroDivisionError("by nought")
        return run_row(fact, *rest)

    monkeypatch.setattr(recording, "run_row", fragile)
    monkeypatch.setattr(recording, "check_speaker", lambda *_: None)
    await bus.publish(a_completion().model_copy(update={"run": "cursed"}), id="cursed")
    sequence = await bus.publish(a_completion(), id="c")
    async with running(recorder.record()):
        await acknowledged(bus, sequence)
    (letter,) = [each.fact for each in await bus.read("mlscope.v1.dead.>")]
    assert getattr(letter, "reason", "") == "ZeroDivisionError: by nought"
    assert at_once == [1]
    assert [attempt.run for attempt in recorder._store.waiting()] == ["r0"]


async def test_an_attempt_that_cannot_be_announced_is_announced_at_a_later_look(
    recorder: AttemptRecorder, bus: Bus, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, failures = MemoryBus.publish, list[object]()

    async def away_at_first(bus: MemoryBus, fact: Any, **more: Any) -> int:
        if isinstance(fact, RunIncomplete) and not failures:
            failures.append(fact)
            raise Unreachable("away")
        return await publish(bus, fact, **more)

    monkeypatch.setattr(MemoryBus, "publish", away_at_first)
    monkeypatch.setattr(recording, "_POLL_S", 0.01)
    _end_a_run_hours_ago(database_url, 0)
    async with running(recorder.announce(0.01, lambda _: False)):
        while not (told := await bus.read(facts_of(RunIncomplete))):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [each.fact for each in told] == failures
