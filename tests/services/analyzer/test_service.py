"""An analyzer at work: rows in PostgreSQL, facts and questions over a bus in memory."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass

import psycopg
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer
from mlscope.bus.streams import durable_named
from mlscope.client import AsyncClient, AsyncEvaluation, CommandRefused
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import AnalysisCompleted, AnalysisFailed, Tables
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationMeasured,
    EvaluationRequested,
    MeasuredRun,
)
from schemas.message import Fact
from schemas.people import VERBS, Asker
from schemas.request import Evaluate
from schemas.subjects import asked_subject
from services.analyzer.errors import AnalysisTooLong
from services.analyzer.patience import TRIES_FOR_ROWS, rows_delay_s
from services.analyzer.service import serve
from services.analyzer.store import migrate
from services.analyzer.tables import ANALYSES
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_trace,
    some_queries,
)

MEASURED = EvaluationMeasured(
    evaluation="e1", runs=(MeasuredRun(run="r0", attempt=1, end="completed", agent="a1"),)
)
SUBJECT = "mlscope.v1.request.tables"


@dataclass(frozen=True)
class Settings:
    """Where an analyzer reads and writes."""

    address: str
    analysis_max_spans: int = 1000
    analysis_wait_s: float = 1800.0

    def database_conninfo(self) -> str:
        """Return the database's address."""
        return self.address


@asynccontextmanager
async def analyzing(
    server: MemoryServer, address: str, most_spans: int = 1000, wait_s: float = 1800.0
) -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    async with connect(server, "analyzer") as bus:
        serving = asyncio.create_task(serve(bus, Settings(address, most_spans, wait_s), stop))
        try:
            await _answering(bus)
            yield serving
        finally:
            stop.set()
            with suppress(AnalysisTooLong):  # which its test has seen
                await serving


async def _answering(bus: Bus) -> None:
    for _ in range(1000):
        with suppress(NoAnswer):
            await bus.ask(SUBJECT, b"{}")
            return
        await asyncio.sleep(0.01)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "scheduler") as bus:
        await bus.publish(a_plan(), id="plan")
        yield bus


def _rows(address: str) -> None:
    collector.migrate(address)
    migrate(address)
    with closing(collector.Store(address)) as rows:
        batches = (some_queries(), a_trace(count=5))
        rows.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
        rows.end_run(run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0"))


async def _said(bus: Bus) -> Fact:
    async with asyncio.timeout(60):
        async for recorded in bus.follow("mlscope.v1.analysis.e1.>"):
            if recorded is not None:
                return recorded.fact
    raise AssertionError("nothing was said")


async def _analyzed(bus: Bus, measured: EvaluationMeasured = MEASURED) -> Fact:
    """Say that an evaluation was `measured`; return what the analyzer says of it."""
    await bus.publish(measured, id="m0")
    return await _said(bus)


def _be_hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for missing rows, and at the database's server, a hundred times a second."""
    monkeypatch.setattr("services.analyzer.patience._MOST_ROWS_DELAY_S", 0.01)
    monkeypatch.setattr("services.analyzer.reanalysis._LOOK_EVERY_S", 0.01)


async def _has_tables(address: str) -> bool:
    """Tell whether all tables of an evaluation are there, which are waited for."""
    for _ in range(2000):
        with psycopg.connect(address) as session:
            (count,) = session.execute("SELECT count(*) FROM analysis").fetchone() or (0,)
        if count:
            break
        await asyncio.sleep(0.01)
    return bool(count == len(ANALYSES))


async def test_spans_beyond_the_setting_are_left_out_and_tables_say_so(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    _rows(database_url)
    async with analyzing(server, database_url, most_spans=3):
        await _analyzed(bus)
        answer = await bus.ask(SUBJECT, b'{"evaluation": "e1", "tables": ["operators"]}')
    (table,) = Tables.model_validate_json(answer).tables
    assert "r0: the first 3 of 5 spans were read" in table.caveats


@pytest.mark.parametrize(("labels", "loads"), [({"purpose": "predict"}, 0), ({}, 1)])
async def test_what_was_only_predicted_is_not_explored(
    server: MemoryServer, database_url: str, bus: Bus, labels: dict[str, str], loads: int
) -> None:
    _rows(database_url)
    request = Evaluate.model_validate({"model": "tiny", "labels": labels})
    fact = EvaluationRequested(evaluation="e1", request=request, requested_ns=1)
    await bus.publish(fact, id="request")
    async with analyzing(server, database_url):
        await _analyzed(bus)
        answer = await bus.ask("mlscope.v1.request.explore", b'{"table": "systems"}')
    assert json.loads(answer)["total_loads"] == loads


async def test_a_measured_evaluation_gets_its_tables(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    _rows(database_url)
    async with analyzing(server, database_url):
        said = await _analyzed(bus)
        answer = await bus.ask(SUBJECT, b'{"evaluation": "e1", "tables": ["latency"]}')
        numbered = await bus.ask(SUBJECT, b'{"evaluation": "e1", "tables": ["A2"]}')
    assert isinstance(said, AnalysisCompleted)
    assert said.tables == tuple(each.name for each in ANALYSES)
    tables = Tables.model_validate_json(answer)
    assert tables.tables[0].rows[0][:2] == ("r0", "online")
    assert [each.name for each in Tables.model_validate_json(numbered).tables] == ["layers"]


async def test_questions_about_no_evaluation_are_refused(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    _rows(database_url)
    async with analyzing(server, database_url):
        unknown = json.loads(await bus.ask(SUBJECT, b'{"evaluation": "e9"}'))
        malformed = json.loads(await bus.ask(SUBJECT, b'{"evaluation": 3}'))
    assert (unknown["error"], unknown["field"], unknown["found"]) == ("unknown", "evaluation", "e9")
    assert (malformed["error"], malformed["field"]) == ("malformed", "evaluation")


@pytest.mark.parametrize(
    ("verb", "question"),
    [
        ("tables", {"evaluation": "e1"}),
        ("predictions", {"evaluation": "e1"}),
        ("compare", {"first": "e1", "second": "e1"}),
        ("spans", {"evaluation": "e1", "run": "r0"}),
        ("flow", {"evaluation": "e1"}),
        ("trace", {"evaluation": "e1", "run": "r0"}),
        ("trace_window", {"evaluation": "e1", "run": "r0"}),
        ("trace_span", {"evaluation": "e1", "run": "r0", "span": 0}),
    ],
)
async def test_what_is_private_is_unknown_to_others_whatever_they_ask(
    server: MemoryServer, database_url: str, bus: Bus, verb: str, question: dict[str, object]
) -> None:
    """Whoever asked for it gets another answer, be it that the question lacks something."""
    _rows(database_url)
    wanted = Evaluate.model_validate({"model": "tiny", "visibility": "private"})
    request = EvaluationRequested(
        evaluation="e1", request=wanted, requested_ns=1, requested_by="ada"
    )
    await bus.publish(request, id="request")
    assert verb in VERBS["viewer"]
    hidden = json.dumps(question)
    absent = hidden.replace('"e1"', '"e8"')
    asked = ((body, name) for body in (hidden, absent) for name in ("ada", "bob"))
    async with analyzing(server, database_url):
        answers = [
            (await bus.ask(asked_subject(Asker(name, "viewer"), verb), body.encode())).decode()
            for body, name in asked
        ]
    of_ada, of_bob, _, of_nothing = answers
    assert of_bob.replace("e1", "e8") == of_nothing
    assert of_ada != of_bob


async def test_questions_for_no_table_are_refused(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    _rows(database_url)
    async with analyzing(server, database_url):
        await _analyzed(bus)
        questions = [{"evaluation": "e1", "tables": [name]} for name in ("x", "layer", "")]
        bodies = [json.dumps(question).encode() for question in questions]
        answers = [json.loads(await bus.ask(SUBJECT, body)) for body in bodies]
    missing, misspelt, empty = answers
    assert (missing["error"], missing["field"], missing["found"]) == ("unknown", "tables", "x")
    assert (empty["error"], empty["field"]) == ("unknown", "tables")
    endings = ("x", "layer; did you mean layers?", "''")
    assert [answer["message"] for answer in (missing, misspelt, empty)] == [
        f"no table is called {ending}" for ending in endings
    ]
    assert {"latency", "layers (A2)"} <= set(missing["allowed"].split(", "))


@pytest.mark.parametrize(
    ("name", "told"), [("x", "allowed: .*latency.*layers"), ("layer", "did you mean layers")]
)
async def test_the_client_names_the_tables_where_one_is_unknown(
    server: MemoryServer, database_url: str, bus: Bus, name: str, told: str
) -> None:
    _rows(database_url)
    async with analyzing(server, database_url):
        await _analyzed(bus)
        evaluation = AsyncEvaluation(AsyncClient(bus=bus), "e1", "")
        with pytest.raises(CommandRefused, match=rf"no table is called {name}; {told}"):
            await evaluation.table(name)


async def test_no_rows_fail_with_the_cause(
    server: MemoryServer, database_url: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_hasty(monkeypatch)
    collector.migrate(database_url)
    migrate(database_url)
    async with analyzing(server, database_url):
        said = await _analyzed(bus)
    assert isinstance(said, AnalysisFailed)
    assert "no run of evaluation e1" in said.cause


async def test_an_analysis_without_end_fails_and_ends_the_process(
    server: MemoryServer, database_url: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent sent may take hours, and the evaluations behind it wait."""
    is_over = threading.Event()
    monkeypatch.setattr("services.analyzer.service.analyze", lambda *_: is_over.wait(60))
    _rows(database_url)
    async with analyzing(server, database_url, wait_s=0.1) as serving:
        said = await _analyzed(bus)
        with pytest.raises(AnalysisTooLong):
            await asyncio.wait_for(asyncio.shield(serving), 30)
    is_over.set()
    assert (await bus.backlog("analyzer")).unsettled == 0
    assert isinstance(said, AnalysisFailed)
    assert said.cause.startswith("AnalysisTooLong: its tables were not computed within 0.05 s, ")


async def test_an_analysis_again_without_end_ends_the_process_once(
    server: MemoryServer, database_url: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start leaves it out: otherwise it would end the process for ever."""
    is_over, begun = threading.Event(), [0]

    def never(*_: object) -> None:
        begun[0] += 1
        is_over.wait(60)

    _rows(database_url)
    await bus.publish(MEASURED, id="m0")
    await bus.publish(AnalysisCompleted(evaluation="e1", tables=(), digest=""), id="a0")
    monkeypatch.setattr("services.analyzer.service.analyze", never)
    monkeypatch.setattr("services.analyzer.service.Analyzer.run", lambda _: asyncio.sleep(60))
    async with analyzing(server, database_url, wait_s=0.1) as serving:
        with pytest.raises(AnalysisTooLong):
            await asyncio.wait_for(asyncio.shield(serving), 30)
    async with analyzing(server, database_url, wait_s=0.1):
        await asyncio.sleep(0.3)
    is_over.set()
    said = [recorded.fact for recorded in await bus.read("mlscope.v1.analysis.e1.>")]
    assert [type(fact) for fact in said] == [AnalysisCompleted, AnalysisFailed]
    assert begun == [1]


LARGER = MEASURED.model_copy(update={"runs": (MEASURED.runs[0].model_copy(update={"queries": 6}),)})
"""Twice as many queries were stored as `_rows` has: the database was restored since."""


async def test_rows_that_a_restored_database_lacks_are_waited_for(
    server: MemoryServer,
    database_url: str,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _be_hasty(monkeypatch)
    monkeypatch.setattr("services.analyzer.service.TRIES_FOR_ROWS", 100_000)
    _rows(database_url)
    async with analyzing(server, database_url):
        await bus.publish(LARGER, id="m0")
        for _ in range(3000):
            if "the database has 3 of 6 stored queries of run r0" in caplog.text:
                break
            await asyncio.sleep(0.01)
        with closing(collector.Store(database_url)) as rows:
            rows.save([prepared_of(some_queries(1), REQUESTED_NS)])
        assert isinstance(await _said(bus), AnalysisCompleted)


async def test_rows_that_never_come_back_are_the_cause(
    server: MemoryServer, database_url: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_hasty(monkeypatch)
    _rows(database_url)
    async with analyzing(server, database_url):
        said = await _analyzed(bus, LARGER)
    assert isinstance(said, AnalysisFailed)
    assert "the database has 3 of 6 stored queries of run r0" in said.cause


async def test_a_database_that_comes_late_is_waited_for(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    async with analyzing(server, database_url):
        await bus.publish(MEASURED, id="m0")
        await asyncio.sleep(0.3)
        refused = await bus.ask(SUBJECT, b'{"evaluation":"e1"}')
        assert json.loads(refused)["error"] == "unavailable"
        await asyncio.to_thread(_rows, database_url)
        assert isinstance(await _said(bus), AnalysisCompleted)
    with psycopg.connect(database_url) as session:
        (count,) = session.execute("SELECT count(*) FROM analysis").fetchone() or (0,)
    assert count == len(ANALYSES)


async def test_a_database_that_lost_what_was_analyzed_is_noticed(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    """The log says that there were tables; a new, empty database has none."""
    collector.migrate(database_url)
    migrate(database_url)
    async with analyzing(server, database_url):
        yet = json.loads(await bus.ask(SUBJECT, b'{"evaluation": "e1"}'))
        assert (yet["error"], yet["message"]) == ("unknown", "evaluation e1 has no tables yet")
        none = json.loads(await bus.ask(SUBJECT, b'{"evaluation": "e9"}'))
        assert (none["error"], "no evaluation is called e9" in none["message"]) == ("unknown", True)
        await bus.publish(EvaluationAnalyzed(evaluation="e1", tables=("latency",)), id="a0")
        lost = json.loads(await bus.ask(SUBJECT, b'{"evaluation": "e1"}'))
    assert lost["error"] == "unavailable"
    assert "the database lost its data or is another one" in lost["message"]
    assert "`mlscope rebuild FILE`" in lost["message"]


async def test_what_a_restored_database_has_no_tables_of_is_analyzed_again(
    server: MemoryServer, database_url: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = ["first"]
    monkeypatch.setattr("services.analyzer.store.Store.server_start", lambda _: starts[-1])
    _be_hasty(monkeypatch)
    _rows(database_url)
    async with analyzing(server, database_url):
        assert isinstance(await _analyzed(bus), AnalysisCompleted)
        with psycopg.connect(database_url) as session:
            session.execute("DELETE FROM analysis")
        starts.append("second")
        assert await _has_tables(database_url)


async def test_what_was_restored_while_no_analyzer_ran_is_analyzed_at_its_start(
    server: MemoryServer, database_url: str, bus: Bus
) -> None:
    _rows(database_url)
    async with analyzing(server, database_url):
        assert isinstance(await _analyzed(bus), AnalysisCompleted)
    with psycopg.connect(database_url) as session:
        session.execute("DELETE FROM analysis")
    async with analyzing(server, database_url):
        assert await _has_tables(database_url)


async def test_an_analysis_that_failed_for_missing_rows_is_made_when_they_are_back(
    server: MemoryServer, database_url: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_hasty(monkeypatch)
    _rows(database_url)
    async with analyzing(server, database_url):
        assert isinstance(await _analyzed(bus, LARGER), AnalysisFailed)
    with closing(collector.Store(database_url)) as rows:
        rows.save([prepared_of(some_queries(1), REQUESTED_NS)])
    async with analyzing(server, database_url):
        assert await _has_tables(database_url)


def test_missing_rows_are_waited_for_while_full_streams_are_read() -> None:
    delays_s = [rows_delay_s(tries) for tries in range(1, TRIES_FOR_ROWS)]
    assert delays_s[:6] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    assert 1500 < sum(delays_s) < 3600
    assert durable_named("analyzer").max_deliver > TRIES_FOR_ROWS
