"""A database restored from a backup gets back what the streams still have."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.evaluation import EvaluationFailed, RunInterrupted
from schemas.subjects import attempt_batches
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
from tests.services.collector.test_service import ALL_OF_A_RUN, Settings, World, collecting

ROWS = (
    "SELECT (SELECT count(*) FROM span), (SELECT count(*) FROM query), (SELECT count(*) FROM run)"
)
EMPTY = "TRUNCATE run, batch, span, span_name, query, output"


class Restored(World):
    """A world whose database can be exchanged for an older one, which starts its server anew."""

    starts = 1

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
        monkeypatch.setattr(Store, "server_start", lambda _: str(world.starts))
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
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT state FROM run", [("recorded",)])
        world.restore_empty()
        await world.until("SELECT state FROM run", [("recorded",)])
        await world.until(ROWS, [(4, 3, 1)])
    assert "the database was restored: 9 rows and the ends of 1 attempts" in caplog.text


async def test_a_database_that_only_started_anew_gets_nothing_twice(
    world: Restored, caplog: pytest.LogCaptureFixture
) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT state FROM run", [("recorded",)])
        world.starts += 1
        await world.say(a_trace(1))
        await world.until(ROWS, [(8, 3, 1)])
    assert "restored" not in caplog.text


async def test_a_run_whose_batches_left_the_streams_stays_lost(world: Restored) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT state FROM run", [("recorded",)])
        async with connect(world.server, "collector") as bus:
            await bus.purge(attempt_batches("trace", "e1", "r0"))
        world.restore_empty()
        await world.until("SELECT (SELECT count(*) FROM query)", [(3,)])
        await world.until(ROWS, [(0, 3, 0)])


@pytest.mark.parametrize("has_ended", [False, True])
async def test_an_interrupted_attempt_comes_back_while_its_evaluation_goes_on(
    world: Restored, *, has_ended: bool
) -> None:
    gone = RunInterrupted(evaluation="e1", run="r0", attempt=1, agent="a1", cause="agent lost")
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.2)):
        await world.say(some_queries(), gone)
        await world.until("SELECT recorded_at IS NOT NULL FROM run", [(True,)])
        if has_ended:
            await world.say(EvaluationFailed(evaluation="e1", cause="no more"))
        world.restore_empty()
        await world.until(ROWS, [(0, 3, 0 if has_ended else 1)])
