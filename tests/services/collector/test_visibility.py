"""Who may see the rows of an attempt, as collectors note it from the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.message import Fact
from services.collector.runs import run_row
from services.collector.store import Store, migrate
from services.collector.visibility import Visibility
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_request,
    a_start,
    some_queries,
)
from tests.services.collector.test_service import Settings, World, collecting

NOTES = "SELECT evaluation, is_visible FROM run_visibility ORDER BY evaluation"


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    migrate(database_url)
    server = MemoryServer()
    async with connect(server, "agent") as bus:
        yield World(server, bus, database_url)


def requested(evaluation: str, visibility: str) -> Fact:
    """Return the request of an evaluation."""
    fact = a_request()
    request = fact.request.model_copy(update={"visibility": visibility})
    return fact.model_copy(update={"evaluation": evaluation, "request": request})


async def say_a_story(world: World, evaluation: str, visibility: str, *facts: Fact) -> None:
    """Publish a request, its plan and the start of its run, then `facts` about that."""
    own = {"evaluation": evaluation}
    await world.say(requested(evaluation, visibility))
    await world.say(*(fact.model_copy(update=own) for fact in (a_plan(), a_start(), *facts)))


def end_a_run(world: World, evaluation: str) -> None:
    """Store the row of an attempt as an older collector did."""
    with closing(Store(world.address)) as store:
        completion = a_completion(evaluation=evaluation)
        store.end_run(run_row(completion, a_plan().plan, REQUESTED_NS, "c0"))


async def test_a_collector_notes_who_may_see_what_it_stores(world: World) -> None:
    """From the first batch of a run, and at its end where there is none."""
    async with collecting(world.server, Settings(world.address)):
        await say_a_story(world, "open", "cluster", some_queries())
        await say_a_story(world, "kept", "private", some_queries())
        await world.until(NOTES, [("kept", False), ("open", True)])
        assert world.ask("SELECT count(*) FROM run") == [(0,)]
        await say_a_story(world, "rowless", "cluster", a_completion())
        await world.until(NOTES, [("kept", False), ("open", True), ("rowless", True)])


async def test_a_starting_collector_notes_what_an_older_one_stored(world: World) -> None:
    """What the log has no request of stays hidden."""
    for name in ("open", "kept", "lost"):
        end_a_run(world, name)
    await world.say(requested("open", "cluster"))
    await world.say(requested("kept", "private"))
    async with collecting(world.server, Settings(world.address)):
        await world.until(NOTES, [("kept", False), ("open", True)])


async def test_all_pages_are_gone_through(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a page of attempts that nobody knows."""
    monkeypatch.setattr("services.collector.visibility._PAGE_RUNS", 1)
    names = [f"e{number}" for number in range(6)]
    for name in names:
        end_a_run(world, name)
    for name in names[::2]:
        await world.say(requested(name, "cluster"))
    async with connect(world.server, "collector") as bus:
        with closing(Visibility(bus, world.address)) as visibility:
            await visibility.judge_all()
    assert world.ask(NOTES) == [(name, True) for name in names[::2]]


async def test_a_private_request_counts_whatever_else_was_asked(world: World) -> None:
    end_a_run(world, "twice")
    for wanted in ("private", "cluster"):
        await world.bus.publish(requested("twice", wanted), id=wanted)
    async with connect(world.server, "collector") as bus:
        with closing(Visibility(bus, world.address)) as visibility:
            await visibility.judge_all()
    assert world.ask(NOTES) == [("twice", False)]


async def test_an_evaluation_with_a_fact_that_cannot_be_read_stays_hidden(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_a_run(world, "newer")
    await world.say(requested("newer", "cluster"))
    async with connect(world.server, "collector") as bus:
        monkeypatch.setattr(type(bus), "unread", lambda *_: 1)
        with closing(Visibility(bus, world.address)) as visibility:
            await visibility.judge_all()
    assert world.ask(NOTES) == []


async def test_what_could_not_be_noted_is_noted_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.collector.visibility._PAUSE_S", 0.02)
    noted, failures = Store.note_visibility, [psycopg.errors.NotNullViolation("no")]

    def fails_once(store: Store, notes: dict[int, tuple[str, bool]]) -> None:
        with store._transaction():
            if failures:
                raise failures.pop()
        noted(store, notes)

    monkeypatch.setattr(Store, "note_visibility", fails_once)
    async with collecting(world.server, Settings(world.address)):
        await say_a_story(world, "open", "cluster", some_queries())
        await world.until(NOTES, [("open", True)])
    assert failures == []


async def test_a_look_that_falls_due_during_another_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL may start again while a large database is gone through."""
    monkeypatch.setattr("services.collector.visibility._PAUSE_S", 0.0)
    visibility = Visibility(world.bus, world.address)
    first, second = asyncio.Event(), asyncio.Event()

    async def judge_all() -> None:
        if first.is_set():
            second.set()
        else:
            first.set()
            visibility.look()

    monkeypatch.setattr(visibility, "judge_all", judge_all)
    visibility.look()
    watching = asyncio.create_task(visibility.watch())
    await asyncio.wait_for(second.wait(), 20)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    visibility.close()
