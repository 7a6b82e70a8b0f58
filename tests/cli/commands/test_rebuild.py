"""`mlscope rebuild`: rows and tables anew from the log, and what it cannot have."""

import threading
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.commands.rebuild import Outcome, rebuilt
from mlscope.backup.archive import Contents, reading, writing
from mlscope.backup.database import save_database
from mlscope.backup.errors import RebuildRuns
from mlscope.backup.staging import Staging, staged
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.evaluation import EvaluationMeasured, MeasuredRun
from schemas.subjects import attempt_batches
from schemas.values.identity import run_key
from services.analyzer import store as analyzer
from services.collector.store import migrate
from tests.services.collector import test_service as collector
from tests.services.collector.builders import a_plan, a_request, a_start
from tests.services.collector.stored import ANALYZED, ROWS, digest_query
from tests.services.collector.test_service import ALL_OF_A_RUN, World, collecting

MEASURED = EvaluationMeasured(
    evaluation="e1", runs=(MeasuredRun(run="r0", attempt=1, end="completed", agent="a1"),)
)
EMPTY = f"TRUNCATE {', '.join(ROWS + ANALYZED)}"


@pytest.fixture
async def collected(database_url: str) -> AsyncIterator[World]:
    """Yield a world in which a run of an evaluation was collected."""
    migrate(database_url)
    analyzer.migrate(database_url)
    server = MemoryServer()
    async with connect(server, "agent") as bus:
        world = World(server, bus, database_url)
        await world.say(a_request(), a_plan(), a_start())
        async with collecting(server, collector.Settings(database_url)):
            await world.say(*ALL_OF_A_RUN)
            await world.until("SELECT state FROM run", [("recorded",)])
        yield world


@pytest.fixture
async def world(collected: World) -> World:
    """Return a world in which an evaluation was measured, collected, and is analyzed nowhere."""
    await collected.say(MEASURED)
    return collected


async def rebuild(
    world: World, backup: Any = None, *, is_trial: bool = False, wait_s: float = 1800.0
) -> Outcome:
    settings = Settings(database_url=world.address, analysis_wait_s=wait_s)
    async with connect(world.server, "collector") as bus:
        return await rebuilt(bus, settings, backup, is_trial=is_trial)


def digests(world: World, tables: tuple[str, ...] = ROWS) -> dict[str, Any]:
    return {table: world.ask(digest_query(table)) for table in tables}


def change(world: World, statement: str) -> None:
    with psycopg.connect(world.address) as session:
        session.execute(statement.encode())


def change_once_staged(world: World, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Have a rebuild find that the database was changed while it computed."""
    at_home = Staging.at_home

    def changed(staging: Staging, run_keys: Collection[int]) -> set[int]:
        change(world, statement)
        return at_home(staging, run_keys)

    monkeypatch.setattr(Staging, "at_home", changed)


async def drop_spans_from_the_log(world: World) -> None:
    async with connect(world.server, "collector") as bus:
        await bus.purge(attempt_batches("trace", "e1", "r0"))


async def test_dropped_rows_and_tables_are_as_before(world: World) -> None:
    collected = digests(world)
    await rebuild(world)
    before = digests(world, ROWS + ANALYZED)
    assert digests(world) == collected
    change(world, EMPTY)
    outcome = await rebuild(world)
    assert digests(world, ROWS + ANALYZED) == before
    assert [*outcome.rebuilt_runs.values()] == ["e1"]
    assert (outcome.kept_runs, outcome.lost_runs, outcome.failed) == ({}, {}, {})


async def test_rows_that_were_changed_are_replaced(world: World) -> None:
    before = digests(world)["query"]
    change(world, "UPDATE query SET ended_ns = 1")
    await rebuild(world)
    assert digests(world)["query"] == before


async def test_a_trial_replaces_nothing(world: World) -> None:
    change(world, EMPTY)
    outcome = await rebuild(world, is_trial=True)
    assert [*outcome.rebuilt_runs.values()] == ["e1"]
    assert world.ask("SELECT count(*) FROM run") == [(0,)]


async def test_rows_that_have_left_the_log_stay_as_they_are(world: World) -> None:
    await drop_spans_from_the_log(world)
    before = digests(world)
    outcome = await rebuild(world)
    assert digests(world) == before
    assert (outcome.rebuilt_runs, [*outcome.kept_runs.values()], outcome.lost_runs) == (
        {},
        ["e1"],
        {},
    )
    assert world.ask("SELECT count(DISTINCT evaluation) FROM analysis") == [(1,)]


async def test_rows_that_are_nowhere_are_lost_and_named(world: World) -> None:
    await drop_spans_from_the_log(world)
    change(world, EMPTY)
    outcome = await rebuild(world)
    assert (outcome.rebuilt_runs, outcome.kept_runs, [*outcome.lost_runs.values()]) == (
        {},
        {},
        ["e1"],
    )
    assert "lost: 1 run of 1 evaluation (e1); neither log nor database has their rows" in [
        *outcome.lines()
    ]


async def test_a_backup_has_what_has_left_the_log(world: World, tmp_path: Path) -> None:
    before = digests(world)
    with writing(tmp_path / "b", Contents("1", "now")) as writer:
        save_database(world.address, writer)
    await drop_spans_from_the_log(world)
    change(world, EMPTY)
    with reading(tmp_path / "b") as backup:
        outcome = await rebuild(world, backup)
    assert [*outcome.rebuilt_runs.values()] == ["e1"]
    assert digests(world) == before


async def test_an_analysis_that_fails_leaves_the_tables_and_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rebuild(world)
    before = digests(world, ANALYZED)

    def fail(*_: object) -> None:
        raise ValueError("no figures")

    monkeypatch.setattr("services.analyzer.service.analyze", fail)
    outcome = await rebuild(world)
    assert outcome.failed == {"e1": "ValueError: no figures"}
    assert digests(world, ANALYZED) == before


def test_other_tables_are_not_called_other_figures() -> None:
    """Another release makes other tables of the same rows; the log does not say which made its."""
    lines = [*Outcome(digests={"e1": True, "e2": False}).lines()]
    assert lines[1:] == [
        "tables of 2 evaluations, 1 with the log's digest",
        "  other tables than the log names (by another release, or of other rows): e2",
    ]


async def test_an_analysis_without_end_is_named_and_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr("services.analyzer.service.analyze", lambda *_: is_over.wait(20))
    outcome = await rebuild(world, wait_s=0.1)
    is_over.set()
    assert outcome.failed["e1"].startswith("AnalysisTooLong: its tables were not computed within")


async def test_a_run_that_gets_a_batch_meanwhile_is_left_alone(world: World) -> None:
    with staged(world.address) as staging:
        change(world, f"INSERT INTO {staging.schema}.run SELECT * FROM run")
        change(world, f"INSERT INTO {staging.schema}.batch SELECT * FROM batch")
        (key,) = staging.keep_complete()
        change(world, f"INSERT INTO batch (run_key, kind, sequence, count) VALUES ({key}, 0, 7, 1)")
        assert staging.replace([key], []) == {key: "e1"}
    assert world.ask("SELECT count(*) FROM span") == [(4,)]


async def test_a_run_that_grew_meanwhile_is_kept_with_the_tables_of_its_evaluation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rebuild(world)
    change(world, "UPDATE analysis SET verdict = 'as it was'")
    late = "INSERT INTO batch (run_key, kind, sequence, count) SELECT run_key, 0, 7, 1 FROM run"
    change_once_staged(world, monkeypatch, late)
    outcome = await rebuild(world)
    assert world.ask("SELECT DISTINCT verdict FROM analysis") == [("as it was",)]
    assert (outcome.rebuilt_runs, [*outcome.kept_runs.values()], outcome.digests) == (
        {},
        ["e1"],
        {},
    )


async def test_the_tables_of_a_run_that_settled_meanwhile_are_left_to_the_analyzer(
    collected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = MeasuredRun(run="r1", attempt=1, end="completed", agent="a1", queries=3)
    await collected.say(MEASURED.model_copy(update={"runs": (*MEASURED.runs, second)}))
    key = f'{{"run_key": {run_key("e1", "r1", 1)}, "run": "r1"}}'
    settled = f"(to_jsonb(r0) || '{key}'::jsonb)"
    ends = f"INSERT INTO run SELECT (jsonb_populate_record(r0, {settled})).* FROM run AS r0"
    change_once_staged(collected, monkeypatch, ends)
    outcome = await rebuild(collected)
    assert (outcome.failed, outcome.digests) == ({}, {})
    assert [*outcome.rebuilt_runs.values()] == ["e1"]


async def test_timelines_of_replaced_rows_are_dropped(world: World) -> None:
    columns = "evaluation, format, stored, description, bytes"
    values = "evaluation, 1, spans, '{}', 1"
    change(world, f"INSERT INTO timeline (run_key, {columns}) SELECT run_key, {values} FROM run")
    part = "INSERT INTO timeline_part SELECT run_key, 0, 0, 'drawn' FROM run"
    change(world, part)
    await rebuild(world)
    assert world.ask("SELECT count(*) FROM timeline") == [(0,)]
    assert world.ask("SELECT count(*) FROM timeline_part") == [(0,)]


def test_tables_of_many_evaluations_are_replaced_at_once(world: World) -> None:
    # More than a server has locks for: 64 of each of 100 sessions.
    with staged(world.address) as staging:
        assert staging.replace([], [f"e{number}" for number in range(20_000)]) == {}


async def test_a_run_that_is_not_settled_is_left_to_the_collector(world: World) -> None:
    spoken = (batch.model_copy(update={"attempt": 2}) for batch in ALL_OF_A_RUN)
    await world.say(a_start(attempt=2), *spoken)
    outcome = await rebuild(world)
    assert len(outcome.rebuilt_runs) == 1
    assert world.ask("SELECT attempt FROM run") == [(1,)]


async def test_an_attempt_of_which_the_streams_have_batches_and_no_end_stays(world: World) -> None:
    spoken = (batch.model_copy(update={"attempt": 2}) for batch in ALL_OF_A_RUN[:-1])
    await world.say(a_start(attempt=2), *spoken)
    key = run_key("e1", "r0", 2)
    row = f'to_jsonb(r0) || \'{{"run_key": {key}, "attempt": 2}}\'::jsonb'
    change(world, f"INSERT INTO run SELECT (jsonb_populate_record(r0, {row})).* FROM run AS r0")
    change(world, f"INSERT INTO batch (run_key, kind, sequence, count) VALUES ({key}, 0, 0, 1)")
    outcome = await rebuild(world)
    assert [*outcome.rebuilt_runs] == [run_key("e1", "r0", 1)]
    assert world.ask(f"SELECT kind, sequence FROM batch WHERE run_key = {key}") == [(0, 0)]


def test_two_at_once_are_refused(world: World) -> None:
    with staged(world.address), pytest.raises(RebuildRuns), staged(world.address):
        pass
    assert world.ask("SELECT to_regnamespace('mlscope_rebuilt') IS NULL") == [(True,)]
