"""A database restored from a backup gets back what the streams still have."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.batch import Batch
from schemas.evaluation import EvaluationFailed
from schemas.run import RunIncomplete
from schemas.subjects import attempt_batches
from services.collector.recollecting import Recollector
from services.collector.store import Store, migrate
from tests.services.collector.builders import (
    GIVEN_UP,
    a_completion,
    a_plan,
    a_request,
    a_start,
    a_trace,
    some_outputs,
    some_queries,
)
from tests.services.collector.test_service import ALL_OF_A_RUN, Settings, World, collecting

ROWS = (
    "SELECT (SELECT count(*) FROM span), (SELECT count(*) FROM query), (SELECT count(*) FROM run)"
)
EMPTY = "TRUNCATE run, batch, span, span_name, query, output, stored_up_to"
MARKS = "SELECT durable FROM stored_up_to WHERE sequence > 0 ORDER BY durable"
NAMES = ("queries", "recorder", "spans")
ENDED = EvaluationFailed(evaluation="e1", cause="no more")


class Restored(World):
    """A world whose database can be exchanged for an older one, which starts its server anew."""

    starts = 1

    async def until_true(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        for _ in range(1000):
            if holds():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("it never held")

    async def record_a_run(self) -> None:
        """Publish the story of a run, and wait until the database has its row."""
        await self.say(*ALL_OF_A_RUN)
        await self.until("SELECT state FROM run", [("recorded",)])

    async def give_up_a_run(self, *batches: Batch) -> None:
        """Publish `batches` of a run whose agent is lost, and wait until its row says so."""
        await self.say(*batches, GIVEN_UP)
        await self.until("SELECT recorded_at IS NOT NULL FROM run", [(True,)])

    def forget_marks(self) -> None:
        """Let the database not know up to which messages it has rows."""
        self.ask("DELETE FROM stored_up_to RETURNING 1")

    async def restore_without_traces(self) -> None:
        """Restore a backup from before all rows when the run's traces have left the streams."""
        async with connect(self.server, "collector") as bus:
            await bus.purge(attempt_batches("trace", "e1", "r0"))
        self.restore_empty()

    def restore_empty(self) -> None:
        """Put a backup from before all rows in the place of the database."""
        with psycopg.connect(self.address) as session:
            session.execute(EMPTY)
        self.starts += 1


@pytest.fixture
async def world(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Restored]:
    migrate(database_url)
    server = MemoryServer()
    async with connect(server, "agent") as bus:
        world = Restored(server, bus, database_url)
        monkeypatch.setattr(Store, "_started", lambda *_: str(world.starts))
        monkeypatch.setattr("services.collector.recollecting._LOOK_EVERY_S", 0.02)
        await world.say(a_request(), a_plan(), a_start())
        yield world


async def test_a_run_under_way_gets_its_batches_back_and_is_recorded(world: Restored) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.say(a_trace(), some_queries())
        await world.until(ROWS, [(4, 3, 0)])
        world.restore_empty()
        await world.say(some_outputs(), a_completion())
        await world.until("SELECT state, spans, queries FROM run", [("recorded", 4, 3)])
        await world.until(ROWS, [(4, 3, 1)])


async def test_a_run_that_was_recorded_is_stored_and_recorded_again(
    world: Restored, caplog: pytest.LogCaptureFixture
) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.record_a_run()
        world.restore_empty()
        await world.until("SELECT state FROM run", [("recorded",)])
        await world.until(ROWS, [(4, 3, 1)])
    assert "9 rows and the ends of 1 attempts that the database lacked" in caplog.text


async def test_a_database_that_only_started_anew_gets_nothing_twice(
    world: Restored, caplog: pytest.LogCaptureFixture
) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.record_a_run()
        await _all_marked(world)
        caplog.clear()  # The first look may come upon an end that is just being stored.
        world.forget_marks()
        world.starts += 1
        await _all_marked(world)
        assert world.ask(ROWS) == [(4, 3, 1)]
    assert "lacked" not in caplog.text


async def test_a_run_whose_batches_left_the_streams_stays_lost(world: Restored) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.record_a_run()
        await world.restore_without_traces()
        await world.until("SELECT (SELECT count(*) FROM query)", [(3,)])
        await world.until(ROWS, [(0, 3, 0)])


@pytest.mark.parametrize("has_ended", [False, True])
async def test_an_interrupted_attempt_comes_back_whether_or_not_its_evaluation_goes_on(
    world: Restored, *, has_ended: bool
) -> None:
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.2)):
        await world.give_up_a_run(some_queries())
        if has_ended:
            await world.say(ENDED)
        world.restore_empty()
        await world.until(ROWS, [(0, 3, 1)])


async def test_an_interrupted_attempt_of_an_ended_evaluation_stays_lost_without_its_batches(
    world: Restored,
) -> None:
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.2)):
        await world.give_up_a_run(a_trace(), some_queries())
        await world.say(ENDED)
        await _all_marked(world)
        await world.restore_without_traces()
        await world.until(ROWS, [(0, 3, 0)])
        await _all_marked(world)
        assert world.ask(ROWS) == [(0, 3, 0)]


async def test_what_was_restored_while_no_collector_ran_comes_back_at_its_start(
    world: Restored,
) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.record_a_run()
    world.restore_empty()
    async with collecting(world.server, Settings(world.address)):
        await world.until("SELECT state FROM run", [("recorded",)])
        await world.until(ROWS, [(4, 3, 1)])


async def test_a_collector_that_starts_reads_nothing_where_nothing_lacks(
    world: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.record_a_run()
        await _all_marked(world)
    calls: list[dict[str, int]] = []

    async def recollect(_: Recollector, after: dict[str, int]) -> None:
        calls.append(after)

    monkeypatch.setattr(Recollector, "recollect", recollect)
    async with collecting(world.server, Settings(world.address)):
        await world.until_true(lambda: bool(calls))
    assert calls == [{}]


async def _all_marked(world: Restored) -> None:
    """Wait until all messages are acknowledged, and the database notes that it has them."""
    marks = "SELECT durable, sequence FROM stored_up_to ORDER BY durable"
    async with connect(world.server, "collector") as bus:
        for _ in range(1000):
            backlogs = [await bus.backlog(name) for name in NAMES]
            sequences = [(name, await bus.acknowledged(name)) for name in NAMES]
            is_settled = not any(backlog.waiting + backlog.unsettled for backlog in backlogs)
            if is_settled and world.ask(marks) == sequences:
                return
            await asyncio.sleep(0.02)
    raise AssertionError("not all messages were noted")


async def test_only_messages_after_those_that_a_backup_has_are_read(
    world: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[str, int]] = []
    pages = Recollector._pages

    def counted(self: Recollector, durable: str, after: int, at_most: int) -> Any:
        reads.append((durable, after))
        return pages(self, durable, after, at_most)

    monkeypatch.setattr(Recollector, "_pages", counted)
    async with collecting(world.server, Settings(world.address)):
        await world.say(a_trace())
        await world.until(ROWS, [(4, 0, 0)])
        await world.until(MARKS, [("spans",)])
        (up_to,) = world.ask("SELECT sequence FROM stored_up_to WHERE durable = 'spans'")
        world.starts += 1
        await world.until_true(lambda: ("spans", up_to[0]) in reads)


async def test_a_run_that_ended_incomplete_comes_back_with_what_there_was(world: Restored) -> None:
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.2)):
        await world.say(a_trace(), some_queries(), a_completion())
        await world.until("SELECT state FROM run", [("incomplete",)])
        assert len(await world.said(RunIncomplete)) == 1
        world.restore_empty()
        await world.until(ROWS, [(4, 3, 1)])


async def test_a_run_with_a_late_batch_comes_back(world: Restored) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.say(*ALL_OF_A_RUN, a_trace(7))
        await world.until("SELECT state FROM run", [("recorded",)])
        await world.until(ROWS, [(8, 3, 1)])
        world.restore_empty()
        await world.until(ROWS, [(8, 3, 1)])


async def test_a_run_that_completed_and_was_given_up_is_marked_so_again(world: Restored) -> None:
    marked = "SELECT outcome, interrupted FROM run"
    async with collecting(world.server, Settings(world.address)):
        await world.say(*ALL_OF_A_RUN, GIVEN_UP)
        await world.until(marked, [("completed", "agent lost")])
        world.restore_empty()
        await world.until(marked, [("completed", "agent lost")])


async def test_a_run_that_a_backup_has_as_given_up_gets_what_its_agent_said(
    world: Restored,
) -> None:
    """Its agent was silent at the time of the backup, and reported afterwards."""
    async with collecting(world.server, Settings(world.address)):
        await world.record_a_run()
        await _all_marked(world)
        world.forget_marks()
        world.ask("UPDATE run SET state = 'interrupted', outcome = 'interrupted' RETURNING 1")
        world.starts += 1
        await world.until("SELECT outcome, state FROM run", [("completed", "recorded")])
