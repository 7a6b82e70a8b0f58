"""A collector at work: real rows in PostgreSQL, facts over a bus in memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer
from mlscope.bus.records import Recorded
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.evaluation import EvaluationMeasured
from schemas.message import Fact, derived_id
from schemas.run import RunIncomplete, RunRecorded
from schemas.subjects import attempt_batches, subject_of
from services.collector.service import serve
from services.collector.store import migrate
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

ALL_OF_A_RUN = (a_trace(), some_outputs(), some_queries(), a_completion())


@dataclass(frozen=True)
class Settings:
    """Where a collector writes and how long it waits."""

    address: str
    batch_deadline_s: float = 30.0
    purge_after_s: float = 3600.0
    keep_unsaved_bytes: int = 0

    def database_conninfo(self) -> str:
        """Return the database's address."""
        return self.address


@dataclass
class World:
    """A bus to speak on, and a database to look into."""

    server: MemoryServer
    bus: Bus
    address: str

    async def say(self, *facts: Fact) -> None:
        """Publish facts, each under an id of its own."""
        for fact in facts:
            number = getattr(fact, "sequence", 0)
            cause = f"{subject_of(fact)} {getattr(fact, 'attempt', 0)}"
            await self.bus.publish(fact, id=derived_id(cause, "test", number))

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return what the database answers."""
        with psycopg.connect(self.address) as session:
            return session.execute(query.encode()).fetchall()

    async def until(self, query: str, expected: list[tuple[Any, ...]]) -> None:
        """Wait until the database answers as expected."""
        found = self.ask(query)
        for _ in range(1000):
            if found == expected:
                return
            await asyncio.sleep(0.02)
            found = self.ask(query)
        assert found == expected

    async def said(self, kind: type[Fact]) -> list[Fact]:
        """Return the facts of a kind said of the run."""
        facts = await self.bus.read(f"mlscope.v1.{kind.entity}.e1.r0.{kind.happened}")
        return [each.fact for each in facts]


@asynccontextmanager
async def collecting(server: MemoryServer, settings: Settings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with connect(server, "collector") as bus:
        serving = asyncio.create_task(serve(bus, settings, stop))
        try:
            yield
        finally:
            stop.set()
            await serving


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    migrate(database_url)
    server = MemoryServer()
    async with connect(server, "agent") as bus:
        world = World(server, bus, database_url)
        await world.say(a_request(), a_plan(), a_start())
        yield world


async def test_a_run_is_recorded_when_its_batches_are_rows(world: World) -> None:
    async with collecting(world.server, Settings(world.address)):
        await world.say(a_completion(), a_trace(), some_queries())
        await world.until("SELECT count(*) FROM query", [(3,)])
        assert await world.said(RunRecorded) == []
        await world.say(some_outputs())
        await world.until("SELECT state FROM run", [("recorded",)])
    about = {"evaluation": "e1", "run": "r0", "attempt": 1}
    recorded = RunRecorded(**about, spans=4, queries=3, outputs=2, batches=3)
    assert await world.said(RunRecorded) == [recorded]


async def test_a_starting_collector_announces_what_is_unannounced(world: World) -> None:
    await world.say(a_completion(), a_trace(), some_queries(), some_outputs())
    async with collecting(world.server, Settings(world.address)):
        await world.until("SELECT state FROM run", [("recorded",)])
    world.ask("UPDATE run SET state = 'ended' RETURNING 1")
    async with collecting(world.server, Settings(world.address)):
        await world.until("SELECT state FROM run", [("recorded",)])
    assert len(await world.said(RunRecorded)) == 1


async def test_past_the_deadline_a_run_is_incomplete(world: World) -> None:
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.2)):
        await world.say(a_trace(), a_completion())
        await world.until("SELECT state FROM run", [("incomplete",)])
        await world.say(some_queries())
        await world.until("SELECT run, batches FROM late", [("r0", 1)])
    (fact,) = await world.said(RunIncomplete)
    assert isinstance(fact, RunIncomplete)
    assert (fact.announced_batches, fact.stored_batches, fact.spans) == (3, 1, 4)


async def test_an_interrupted_run_whose_agent_is_silent_counts_with_its_rows(world: World) -> None:
    counted = "SELECT recorded_at IS NOT NULL, state, settled_batches FROM run"
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.2)):
        await world.say(a_trace(), some_queries(status=bytes([0, 1, 0])), GIVEN_UP)
        await world.until(counted, [(True, "interrupted", 2)])
        (fact,) = await world.said(RunIncomplete)
        assert isinstance(fact, RunIncomplete)
        assert (fact.spans, fact.queries, fact.failed_queries) == (4, 3, 1)
        assert (fact.announced_batches, fact.stored_batches) == (0, 2)
        await world.say(some_outputs(), a_completion())
        await world.until(counted, [(True, "recorded", 3)])
    (late,) = await world.said(RunRecorded)
    assert isinstance(late, RunRecorded)
    assert (late.queries, late.outputs) == (3, 2)


async def test_an_interrupted_run_of_which_no_batch_came_is_counted(world: World) -> None:
    """A cancelled evaluation waits for this count before its tables are made."""
    async with collecting(world.server, Settings(world.address, batch_deadline_s=0.1)):
        await world.say(GIVEN_UP)
        counted = "SELECT state, settled_batches FROM run WHERE recorded_at IS NOT NULL"
        await world.until(counted, [("interrupted", 0)])
    (fact,) = await world.said(RunIncomplete)
    assert isinstance(fact, RunIncomplete)
    assert (fact.spans, fact.queries, fact.outputs, fact.batches) == (0, 0, 0, 0)


async def test_poison_is_buried_and_its_neighbours_live(world: World) -> None:
    misshapen = a_trace(1, level=b"")
    torn = a_trace(2, attribute_rows=(0,), attribute_texts=(b"{torn",))
    await world.say(a_trace(0), misshapen, torn, a_trace(3))
    async with collecting(world.server, Settings(world.address)):
        await world.until("SELECT count(*) FROM span", [(8,)])
        reasons = await _buried(world, 2)
    assert any("column level has 0 of 4 values" in reason for reason in reasons)
    assert any("json" in reason for reason in reasons)


async def test_what_another_agent_says_is_buried_and_the_real_one_counts(world: World) -> None:
    """A forged marker or end would keep the real one out: the first is kept for ever."""
    other = {"agent": "a2"}
    await world.say(*(each.model_copy(update=other) for each in ALL_OF_A_RUN))
    forger = {"agent": "scheduler"}
    await world.say(some_queries().model_copy(update=forger))
    async with collecting(world.server, Settings(world.address)):
        reasons = await _buried(world, 5)
        assert world.ask("SELECT count(*) FROM run") == [(0,)]
        assert world.ask("SELECT count(*) FROM batch") == [(0,)]
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT state, agent FROM run", [("recorded", "a1")])
    assert (
        sum("a2 published a fact about r0, attempt 1, which a1 runs" in each for each in reasons)
        == 4
    )


async def test_an_attempt_nobody_started_is_not_recorded(world: World) -> None:
    """Else its end would be there before that of the agent which really gets it."""
    forged = {"attempt": 2}
    await world.say(*(each.model_copy(update=forged) for each in ALL_OF_A_RUN))
    async with collecting(world.server, Settings(world.address)):
        await world.say(*ALL_OF_A_RUN)
        await world.until("SELECT attempt, state FROM run", [(1, "recorded")])
        assert world.ask("SELECT count(*) FROM batch") == [(3,)]
        await world.say(a_start(attempt=2))
        await world.until("SELECT count(*) FROM batch", [(6,)])


async def test_the_scheduler_tells_of_the_queries_of_remote_runs(world: World) -> None:
    remote = {"evaluation": "e2"}
    whose = [a_request(), a_plan("remote"), a_start(), *ALL_OF_A_RUN]
    told = [each.model_copy(update=remote) for each in whose]
    told[-2] = told[-2].model_copy(update={"agent": "scheduler"})
    await world.say(*told)
    async with collecting(world.server, Settings(world.address)):
        await world.until("SELECT evaluation, state FROM run", [("e2", "recorded")])


async def _buried(world: World, count: int) -> list[str]:
    letters: list[Recorded] = []
    async with asyncio.timeout(60):
        while len(letters) < count:
            letters = await world.bus.read("mlscope.v1.dead.>")
            await asyncio.sleep(0.02)
    return [letter.fact.model_dump()["reason"] for letter in letters]


async def test_two_collectors_share_the_work(world: World) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(collecting(world.server, Settings(world.address)))
        await world.say(*(a_trace(sequence) for sequence in range(60)))
        await world.until("SELECT count(*), count(DISTINCT batch) FROM span", [(240, 60)])


async def test_killed_before_acknowledging_nothing_is_twice(world: World) -> None:
    await world.say(*(a_trace(sequence) for sequence in range(20)))
    async with connect(world.server, "collector") as bus:
        serving = asyncio.create_task(serve(bus, Settings(world.address), asyncio.Event()))
        await world.until("SELECT count(*) > 0 FROM span", [(True,)])
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with collecting(world.server, Settings(world.address)):
        await world.until("SELECT count(*), count(DISTINCT batch) FROM span", [(80, 20)])


async def test_messages_leave_once_a_run_is_recorded(world: World) -> None:
    async with collecting(world.server, Settings(world.address, purge_after_s=0.1)):
        await world.say(a_trace(), some_queries(), some_outputs(), a_completion())
        await world.until("SELECT purged_at IS NOT NULL FROM run", [(True,)])
    assert await world.bus.read(attempt_batches("trace", "e1", "r0")) == []
    assert await world.bus.read(attempt_batches("output", "e1", "r0")) == []


async def test_messages_leave_once_they_are_rows_while_the_run_goes_on(world: World) -> None:
    async with collecting(world.server, Settings(world.address, purge_after_s=0.1)):
        await world.say(a_trace(), some_queries(), some_outputs())
        await world.until("SELECT count(*) FROM span", [(4,)])
        for entity in ("trace", "query", "output"):
            async with asyncio.timeout(60):
                while await world.bus.read(attempt_batches(entity, "e1", "r0")):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await world.say(a_completion())
        await world.until("SELECT state FROM run", [("recorded",)])


async def test_a_run_given_up_is_purged_when_the_evaluation_ends(world: World) -> None:
    settings = Settings(world.address, batch_deadline_s=0.1, purge_after_s=0.1)
    async with collecting(world.server, settings):
        await world.say(a_trace(), GIVEN_UP)
        await world.until("SELECT state FROM run", [("interrupted",)])
        await asyncio.sleep(0.3)
        assert world.ask("SELECT purged_at FROM run") == [(None,)]
        await world.say(EvaluationMeasured(evaluation="e1", runs=()))
        await world.until("SELECT purged_at IS NOT NULL FROM run", [(True,)])


async def test_a_database_that_is_away_costs_nothing(world: World) -> None:
    name = world.address.rsplit("/", 1)[1]
    with psycopg.connect(world.address.replace(name, "postgres"), autocommit=True) as session:
        session.execute(f'ALTER DATABASE "{name}" RENAME TO "{name}_away"'.encode())
        async with collecting(world.server, Settings(world.address)):
            await world.say(a_trace(), a_completion(), some_queries(), some_outputs())
            await asyncio.sleep(0.5)
            session.execute(f'ALTER DATABASE "{name}_away" RENAME TO "{name}"'.encode())
            await world.until("SELECT state FROM run", [("recorded",)])
    assert world.ask("SELECT count(*) FROM span") == [(4,)]


async def figures(bus: Bus) -> dict[str, Any]:
    """Return what the collector says of itself; nothing until it has begun."""
    with suppress(NoAnswer):
        answer = json.loads(await bus.ask("$SRV.STATS.collector", b""))
        return dict(answer["endpoints"][0]["data"])
    return {}


async def test_what_is_stored_of_a_run_under_way_is_in_no_backup(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.collector.holdings._LOOK_EVERY_S", 0.02)
    async with collecting(world.server, Settings(world.address, keep_unsaved_bytes=1 << 30)):
        await world.say(a_trace())
        async with asyncio.timeout(60):
            while not (await figures(world.bus)).get("unsaved_evaluations"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        told = await figures(world.bus)
    assert (told["unsaved_evaluations"], told["database_only_evaluations"]) == (1, 0)
