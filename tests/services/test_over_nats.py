"""Collector and analyzer with their own keys on a real server: rows, purge, tables, questions."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.analysis import AnalysisCompleted
from schemas.evaluation import EvaluationMeasured, MeasuredRun
from schemas.message import Fact
from schemas.run import RunRecorded
from schemas.subjects import attempt_batches
from services.analyzer import service as analyzer
from services.analyzer.store import migrate as migrate_analyzer
from services.collector import service as collector
from services.collector.store import migrate as migrate_collector
from tests.services.collector.builders import (
    a_completion,
    a_plan,
    a_request,
    a_start,
    a_trace,
    some_outputs,
    some_queries,
)

Serve = Callable[[Bus, Any, asyncio.Event], Awaitable[None]]


def _settings(server: NatsServer, address: str, name: str, purge_after_s: float = 0.1) -> Settings:
    return Settings(
        nats_url=server.url,
        nats_seed_file=server.seed_files[name],
        database_url=address,
        purge_after_s=purge_after_s,
        keep_unsaved_bytes=0,
        default_budget_s=0,
    )


@asynccontextmanager
async def _serving(name: str, serve: Serve, settings: Settings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with connect(settings, name) as bus, asyncio.TaskGroup() as group:
        group.create_task(_run(serve, bus, settings, stop))
        yield
        stop.set()


async def _run(serve: Serve, bus: Bus, settings: Settings, stop: asyncio.Event) -> None:
    await serve(bus, settings, stop)


async def _first(bus: Bus, kind: type[Fact]) -> Fact:
    async with asyncio.timeout(30):
        async for recorded in bus.follow(f"mlscope.v1.{kind.entity}.e1.>"):
            if recorded is not None and isinstance(recorded.fact, kind):
                return recorded.fact
    raise AssertionError(f"no {kind.__name__}")


async def _purged(address: str) -> bool:
    for _ in range(300):
        with psycopg.connect(address) as session:
            found = session.execute("SELECT count(*) FROM run WHERE purged_at IS NOT NULL")
            if found.fetchall() == [(1,)]:
                return True
        await asyncio.sleep(0.05)
    return False


async def test_from_batches_to_tables(data_folder: Path, database_url: str) -> None:
    migrate_collector(database_url)
    migrate_analyzer(database_url)
    with NatsServer(data_folder) as server:

        def settings(name: str) -> Settings:
            return _settings(server, database_url, name)

        await provision(settings("provisioner"))
        async with (
            connect(settings("scheduler"), "scheduler") as scheduler,
            connect(settings("agent"), "agent") as agent,
            connect(settings("requester"), "requester") as requester,
            _serving("collector", collector.serve, settings("collector")),
            _serving("analyzer", analyzer.serve, settings("analyzer")),
        ):
            for decision in (a_request(), a_plan(), a_start()):
                await scheduler.publish(decision, id=decision.schema_name())
            for batch in (a_trace(), some_queries(), some_outputs(), a_completion()):
                await agent.publish(batch, id=batch.schema_name())
            recorded = await _first(scheduler, RunRecorded)
            assert recorded.model_dump()["spans"] == 4
            ended = MeasuredRun(run="r0", attempt=1, end="completed", agent="a1")
            await scheduler.publish(EvaluationMeasured(evaluation="e1", runs=(ended,)), id="m0")
            await _first(scheduler, AnalysisCompleted)
            answer = await requester.ask("mlscope.v1.request.tables", b'{"evaluation": "e1"}')
            assert await _purged(database_url)
        async with connect(settings("collector"), "collector") as bus:
            await bus.purge(attempt_batches("trace", "e1", "r0"))
    names = [table["name"] for table in json.loads(answer)["tables"]]
    assert names[:2] == ["conditions", "latency"]


_LOST = "run, batch, span, span_name, query, output, stored_up_to, analysis"
_HELD = """SELECT
    (SELECT count(*) FROM span), (SELECT count(*) FROM query), (SELECT count(*) FROM run),
    (SELECT count(*) > 0 FROM analysis)"""


async def _holds_all(address: str) -> bool:
    for _ in range(600):
        with psycopg.connect(address) as session:
            if session.execute(_HELD).fetchall() == [(4, 3, 1, True)]:
                return True
        await asyncio.sleep(0.05)
    return False


async def _measure(settings: Callable[[str], Settings]) -> None:
    """Publish a run and wait for its tables."""
    async with (
        connect(settings("scheduler"), "scheduler") as scheduler,
        connect(settings("agent"), "agent") as agent,
    ):
        for decision in (a_request(), a_plan(), a_start()):
            await scheduler.publish(decision, id=decision.schema_name())
        for batch in (a_trace(), some_queries(), some_outputs(), a_completion()):
            await agent.publish(batch, id=batch.schema_name())
        await _first(scheduler, RunRecorded)
        ended = MeasuredRun(run="r0", attempt=1, end="completed", agent="a1", spans=4, queries=3)
        await scheduler.publish(EvaluationMeasured(evaluation="e1", runs=(ended,)), id="m0")
        await _first(scheduler, AnalysisCompleted)


async def test_a_database_that_is_older_at_the_start_gets_rows_and_tables_back(
    data_folder: Path, database_url: str
) -> None:
    migrate_collector(database_url)
    migrate_analyzer(database_url)
    with NatsServer(data_folder) as server:

        def settings(name: str) -> Settings:
            return _settings(server, database_url, name, purge_after_s=3600)

        await provision(settings("provisioner"))
        for is_first in (True, False):
            async with (
                _serving("collector", collector.serve, settings("collector")),
                _serving("analyzer", analyzer.serve, settings("analyzer")),
            ):
                if is_first:
                    await _measure(settings)
                assert await _holds_all(database_url)
            if is_first:
                with psycopg.connect(database_url) as session:
                    session.execute(f"TRUNCATE {_LOST} CASCADE".encode())
