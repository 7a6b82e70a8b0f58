"""Patience with a database that is away or full, and what a batch is before it is stored."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.streams import durable_named
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.batch import Batch
from schemas.dead import LetterBuried
from schemas.message import Fact
from schemas.subjects import facts_of
from services.collector.errors import (
    DatabaseAway,
    DatabaseFull,
    MisshapenBatch,
    UnstartedAttempt,
)
from services.collector.evaluations import Evaluations
from services.collector.saving import Saver, patiently, prepared_of
from services.collector.store import Prepared, Store
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_request,
    a_start,
    a_trace,
    some_outputs,
)


class Held:
    """A delivery that counts how often its time was extended."""

    def __init__(self) -> None:
        self.extended = 0

    async def in_progress(self) -> None:
        """Count."""
        self.extended += 1


class Failing:
    """Work that fails before it succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        """Fail, or be done."""
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.parametrize(
    ("error", "level"),
    [(DatabaseAway("gone"), logging.WARNING), (DatabaseFull("no room"), logging.ERROR)],
)
async def test_work_waits_for_the_database(
    error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()
    assert await patiently([held], Failing(error, error)) == "done"  # type: ignore[list-item]
    assert held.extended == 2
    assert {record.levelno for record in caplog.records} == {level}


async def test_what_waits_for_a_store_does_not_come_again() -> None:
    impatient = replace(durable_named("spans"), ack_wait_s=0.2)
    server = MemoryServer(durables=[impatient])
    async with connect(server, "collector") as bus, connect(server, "other") as other:
        await bus.publish(a_request(), id="r")
        await bus.publish(a_start(), id="s")
        await bus.publish(a_trace(), id="t")
        saver = Saver(bus, [], Evaluations(bus), lambda _: None, alive_s=0.02)
        saving = asyncio.create_task(saver.run("spans", 1))
        await asyncio.sleep(0.1)
        async with aclosing(other.deliveries("spans")) as again:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(again), 0.6)
        saving.cancel()
        await asyncio.wait([saving])


async def test_a_batch_without_memory_comes_again_and_is_not_buried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[int] = []

    def starved(batch: Batch, _: int) -> Prepared:
        tries.append(batch.sequence)
        raise MemoryError if len(tries) == 1 else MisshapenBatch("seen again")

    monkeypatch.setattr("services.collector.saving.prepared_of", starved)
    async with connect(MemoryServer(), "collector") as bus:
        for fact, name in ((a_request(), "r"), (a_start(), "s"), (a_trace(), "t")):
            await bus.publish(fact, id=name)
        saver = Saver(bus, [], Evaluations(bus), lambda _: None)
        saving = asyncio.create_task(saver.run("spans", 1))
        async with asyncio.timeout(60):
            while not saver.buried:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        saving.cancel()
        await asyncio.wait([saving])
    assert tries == [0, 0]


@asynccontextmanager
async def saving(saver: Saver, batch: int = 1) -> AsyncIterator[asyncio.Task[None]]:
    """Run a saver for the time of a block."""
    task = asyncio.create_task(saver.run("spans", batch))
    async with asyncio.timeout(60):
        yield task
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    "error", [UnstartedAttempt("e1", "r0", 1), Unreachable("away"), MemoryError()]
)
async def test_a_last_try_that_cannot_be_buried_ends_no_saver(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(batch: Batch, _: int) -> Prepared:
        raise MisshapenBatch("torn") if batch.sequence else error

    last_try = replace(durable_named("spans"), max_deliver=1)
    async with connect(MemoryServer(durables=[last_try]), "collector") as bus:
        publish, refused = bus.publish, list[str]()

        async def once_away(fact: Fact, *, id: str, **more: Any) -> int:  # noqa: A002
            if isinstance(fact, LetterBuried) and not refused:
                refused.append(fact.reason)
                raise Unreachable("away")
            return await publish(fact, id=id, **more)

        for fact, name in ((a_request(), "r"), (a_start(), "s"), (a_trace(), "t")):
            await bus.publish(fact, id=name)
        await bus.publish(a_trace(1), id="u")
        monkeypatch.setattr("services.collector.saving.prepared_of", failing)
        monkeypatch.setattr(bus, "publish", once_away)
        saver = Saver(bus, [], Evaluations(bus), lambda _: None)
        async with saving(saver) as task:
            while not saver.buried and not task.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert (saver.buried, refused) == (1, ["given up after 1 tries"])
    buried = caplog.records[-1]
    assert buried.getMessage().startswith("buried")
    place = {"evaluation": "e1", "run": "r0", "agent": "a1"}
    assert {name: vars(buried)[name] for name in place} == place


class Starved:
    """A store that lacks memory the first time."""

    def __init__(self) -> None:
        self.saved: list[list[int]] = []

    def save(self, batches: Sequence[Prepared]) -> int:
        """Fail, or store."""
        self.saved.append([batch.marker[2] for batch in batches])
        if len(self.saved) == 1:
            raise MemoryError
        return sum(batch.count for batch in batches)


async def letters(bus: Bus) -> list[Fact]:
    """Return what was buried."""
    return [recorded.fact for recorded in await bus.read(facts_of(LetterBuried))]


async def test_batches_there_is_no_memory_to_commit_come_again() -> None:
    store = Starved()
    async with connect(MemoryServer(), "collector") as bus:
        for fact, name in ((a_request(), "r"), (a_start(), "s"), (a_trace(), "t")):
            await bus.publish(fact, id=name)
        last = await bus.publish(a_trace(1), id="u")
        stores: list[Store] = [store]  # type: ignore[list-item]
        saver = Saver(bus, stores, Evaluations(bus), lambda _: None)
        async with saving(saver, batch=2) as task:
            while await bus.acknowledged("spans") < last and not task.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await letters(bus) == []
    assert (saver.rows, store.saved[0]) == (8, [0, 1])


@pytest.mark.parametrize(("waiting", "is_behind"), [(1, False), (2, True), (3, True)])
async def test_a_full_fetch_says_that_more_may_wait(waiting: int, is_behind: bool) -> None:
    async with connect(MemoryServer(), "collector") as bus:
        await bus.publish(a_request(), id="r")
        await bus.publish(a_start(), id="s")
        for sequence in range(waiting):
            await bus.publish(a_trace(sequence), id=f"t{sequence}")
        saver = Saver(bus, [], Evaluations(bus), lambda _: None, alive_s=0.02)
        assert not saver.was_behind(3600.0)
        saving = asyncio.create_task(saver.run("spans", 2))
        await asyncio.sleep(0.2)
        assert saver.was_behind(3600.0) is is_behind
        assert not saver.was_behind(0.0)
        saving.cancel()
        await asyncio.wait([saving])


async def test_what_is_wrong_with_the_work_is_raised() -> None:
    with pytest.raises(ValueError, match="torn"):
        await patiently((), Failing(ValueError("torn")))


def test_a_batch_is_prepared_with_its_marker_and_names() -> None:
    prepared = prepared_of(a_trace(3), REQUESTED_NS)
    assert (prepared.marker[1:], prepared.table, prepared.count) == ((0, 3), "span", 4)
    assert prepared.names == ((7, "predict"),)
    assert prepared_of(some_outputs(), REQUESTED_NS).names == ()


def test_names_without_texts_are_misshapen() -> None:
    with pytest.raises(MisshapenBatch, match="0 texts for 1 names"):
        prepared_of(a_trace(name_texts=()), REQUESTED_NS)
