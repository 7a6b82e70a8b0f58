"""The schema and the stores on TimescaleDB: what plain PostgreSQL cannot show."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from mlscope.backup.staging import staged
from mlscope.database.migrations import profile_of
from mlscope.database.reader import drop_views, make_views
from schemas.evaluation import MeasuredRun
from schemas.request import ShowTables
from schemas.values.identity import run_key
from services.analyzer.analysis import analyze
from services.analyzer.store import Store as AnalyzerStore
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from services.collector.store import Store, migrate
from tests.dashboards.reading import NAMES, answers_of
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_linked_trace,
    a_plan,
    a_trace,
    some_queries,
)

DAY_NS = 86_400 * 10**9


@pytest.fixture
def session(timescale_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(timescale_url, autocommit=True, prepare_threshold=None) as session:
        yield session


@pytest.fixture
def store(timescale_url: str) -> Iterator[Store]:
    with closing(Store(timescale_url)) as store:
        yield store


def _save(store: Store, evaluation: str, *sequences: int, age_days: int = 0) -> int:
    own: dict[str, Any] = {"evaluation": evaluation}
    start_ns = time.time_ns() - age_days * DAY_NS
    spans = [prepared_of(a_trace(each, **own), start_ns) for each in sequences]
    queries = [prepared_of(some_queries(each, **own), start_ns) for each in sequences]
    return store.save([*spans, *queries])


def _count(session: psycopg.Connection[Any], table: str, evaluation: str) -> int:
    key = run_key(evaluation, "r0", 1)
    query = f"SELECT count(*) FROM {table} WHERE run_key = {key}"
    return int(session.execute(query.encode()).fetchall()[0][0])


def _run_policy(session: psycopg.Connection[Any], procedure: str, table: str) -> None:
    found = session.execute(
        "SELECT job_id FROM timescaledb_information.jobs"
        " WHERE proc_name = %s AND hypertable_name = %s",
        (procedure, table),
    )
    ((job,),) = found.fetchall()
    session.execute(f"CALL run_job({job})".encode())


@contextmanager
def _limited(session: psycopg.Connection[Any], setting: str, limit: int) -> Iterator[None]:
    """Limit what every session does: they share one backend."""
    session.execute(f"SET {setting} = {limit}".encode())
    yield
    session.execute(f"RESET {setting}".encode())


def test_spans_and_queries_are_hypertables_with_policies(
    timescale_url: str, session: psycopg.Connection[Any]
) -> None:
    assert profile_of(timescale_url) == "timescaledb"
    jobs = session.execute(
        "SELECT hypertable_name, proc_name FROM timescaledb_information.jobs"
        " WHERE hypertable_name IS NOT NULL"
    ).fetchall()
    for table in ("span", "query"):
        assert (table, "policy_retention") in jobs
        assert (table, "policy_compression") in jobs
        assert (f"{table}_trend", "policy_refresh_continuous_aggregate") in jobs


def test_migrating_again_changes_nothing(
    timescale_url: str, session: psycopg.Connection[Any]
) -> None:
    versions = "SELECT component, version, applied_at FROM schema_version ORDER BY 1, 2"
    before = session.execute(versions.encode()).fetchall()
    assert migrate(timescale_url) == "timescaledb"
    assert session.execute(versions.encode()).fetchall() == before


def test_a_redelivered_batch_adds_nothing(store: Store, session: psycopg.Connection[Any]) -> None:
    assert _save(store, "again", 0, 1) == 14
    assert _save(store, "again", 1, 2) == 7
    assert _count(session, "span", "again") == 12


def test_trends_agree_with_the_rows(store: Store, session: psycopg.Connection[Any]) -> None:
    # Later than whatever another test refreshed: only such rows are read live.
    _save(store, "trend", 0, 1, age_days=-2)
    live = _count(session, "query_trend", "trend")
    session.execute("CALL refresh_continuous_aggregate('query_trend', NULL, NULL)")
    session.execute("CALL refresh_continuous_aggregate('span_trend', NULL, NULL)")
    key = run_key("trend", "r0", 1)
    query = f"SELECT queries, failed, samples, most_ns FROM query_trend WHERE run_key = {key}"
    assert live == 1
    assert session.execute(query.encode()).fetchall() == [(6, 0, 6, 9)]
    query = f"SELECT level, spans, sum_ns FROM span_trend WHERE run_key = {key}"
    assert session.execute(query.encode()).fetchall() == [(2, 8, 40.0)]


def test_old_rows_are_compressed_and_late_ones_still_arrive(
    store: Store, session: psycopg.Connection[Any]
) -> None:
    _save(store, "old", 0, age_days=3)
    _run_policy(session, "policy_compression", "span")
    compressed = session.execute(
        "SELECT count(*) FROM timescaledb_information.chunks"
        " WHERE hypertable_name = 'span' AND is_compressed"
    ).fetchall()
    assert compressed != [(0,)]
    assert _save(store, "old", 0, 1, age_days=3) == 7
    assert _count(session, "span", "old") == 8


def test_a_rebuild_replaces_compressed_rows_however_many(
    timescale_url: str, store: Store, session: psycopg.Connection[Any]
) -> None:
    batch = a_trace(0, evaluation="rebuilt")
    store.save([prepared_of(batch, time.time_ns() - 4 * DAY_NS)])
    row = run_row(a_completion(evaluation="rebuilt"), a_plan().plan, REQUESTED_NS, "c0")
    store.end_run(row)
    store.settle(row["run_key"], "recorded", 1)
    _run_policy(session, "policy_compression", "span")
    with staged(timescale_url) as staging:
        for table in ("run", "batch", "span"):
            copy = f"INSERT INTO {staging.schema}.{table} SELECT * FROM public.{table}"
            session.execute(f"{copy} WHERE run_key = {row['run_key']}".encode())
        session.execute(f"UPDATE {staging.schema}.span SET duration_ns = 1".encode())
        with _limited(session, "timescaledb.max_tuples_decompressed_per_dml_transaction", 3):
            assert staging.replace([*staging.keep_complete()], []) == {}
    query = f"SELECT count(*), sum(duration_ns)::int8 FROM span WHERE run_key = {row['run_key']}"
    assert session.execute(query.encode()).fetchall() == [(4, 4)]


def test_linked_spans_keep_their_links_in_a_hypertable(
    store: Store, session: psycopg.Connection[Any]
) -> None:
    batch = a_linked_trace(0, evaluation="linked")
    assert store.save([prepared_of(batch, time.time_ns())]) == 2
    key = run_key("linked", "r0", 1)
    query = f"SELECT kind, correlation FROM span WHERE run_key = {key} ORDER BY span"
    assert session.execute(query.encode()).fetchall() == [(1, 33), (2, 33)]


def test_rows_past_retention_are_dropped(store: Store, session: psycopg.Connection[Any]) -> None:
    _save(store, "ancient", 0, age_days=100)
    _run_policy(session, "policy_retention", "span")
    assert _count(session, "span", "ancient") == 0
    assert _count(session, "query", "ancient") == 3


def test_an_analyzer_reads_and_writes(timescale_url: str, store: Store) -> None:
    store.save([prepared_of(a_trace(), REQUESTED_NS), prepared_of(some_queries(), REQUESTED_NS)])
    store.end_run(run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0"))
    measured = MeasuredRun(run="r0", attempt=1, end="completed", agent="a1")
    with closing(AnalyzerStore(timescale_url)) as analyzer:
        done = analyze(analyzer.read("e1", [measured]))
        analyzer.write("e1", done)
        assert analyzer.tables(ShowTables(evaluation="e1")).tables == done.tables


def test_people_see_trends_of_ended_runs(store: Store, session: psycopg.Connection[Any]) -> None:
    store.save([prepared_of(some_queries(7), REQUESTED_NS)])
    store.end_run(run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0"))
    session.execute("CALL refresh_continuous_aggregate('query_trend', NULL, NULL)")
    found = session.execute("SELECT model, runs, least_ns, most_ns FROM trend").fetchall()
    assert found == [("identity", 1, 9, 9)]


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_read_continuous_aggregates_too(
    store: Store, session: psycopg.Connection[Any], name: str
) -> None:
    own: dict[str, Any] = {"evaluation": f"board-{name}"}
    _save(store, own["evaluation"], 0)
    store.end_run(run_row(a_completion(**own), a_plan().plan, time.time_ns(), "c0"))
    counts = answers_of(name, session)
    assert counts.get("Agents", 1)
    assert counts.get("Runs", 1)


@pytest.fixture
def reader(session: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Make the role as an older reader.sql did, then the views as an upgrade does; be the role."""
    session.execute("CREATE ROLE mlscope_reader")
    session.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO mlscope_reader")
    with session.transaction():
        drop_views(session)
        make_views(session)
    session.execute("SET ROLE mlscope_reader")
    # What a login of the role sets: all sessions share one backend, which has logged in.
    session.execute("SET search_path = mlscope_reader, public")
    yield session
    session.execute("SET search_path = public")
    session.execute("RESET ROLE")
    session.execute("DROP OWNED BY mlscope_reader")
    session.execute("DROP ROLE mlscope_reader")


def _readable(session: psycopg.Connection[Any]) -> list[str]:
    """Return the tables, chunks and aggregates that the reading role may read as they are."""
    found = session.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v')"
        " AND (relnamespace = 'public'::regnamespace"
        "  OR relname ~ '_hyper_|_materialized_hypertable_|^_partial_view_|^_direct_view_')"
        " AND has_table_privilege('mlscope_reader', oid, 'SELECT')"
    )
    return [name for (name,) in found.fetchall()]


@pytest.fixture
def two_runs(store: Store, session: psycopg.Connection[Any]) -> None:
    """Store a run that everybody may see, and one that is private, in compressed chunks."""
    for name, is_visible in (("shown", True), ("private", False)):
        _save(store, name, 0, age_days=3)
        row = run_row(a_completion(evaluation=name), a_plan().plan, REQUESTED_NS, "c0")
        store.end_run(row | {"model": f"{name}-model"})
        store.note_visibility({row["run_key"]: (name, is_visible)})
    _run_policy(session, "policy_compression", "span")
    session.execute("CALL refresh_continuous_aggregate('query_trend', NULL, NULL)")
    session.execute("CALL refresh_continuous_aggregate('span_trend', NULL, NULL)")


def test_the_reading_role_sees_public_runs_alone(
    two_runs: None, reader: psycopg.Connection[Any]
) -> None:
    tables = ("span", "query", "query_trend", "span_trend", "batch")
    assert [_count(reader, table, "private") for table in tables] == [0] * len(tables)
    assert all(_count(reader, table, "shown") for table in tables)
    models = reader.execute("SELECT model FROM trend WHERE model LIKE '%-model'").fetchall()
    assert models == [("shown-model",)]
    assert _readable(reader) == []


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_run_as_the_reading_role(
    two_runs: None, reader: psycopg.Connection[Any], name: str
) -> None:
    counts = answers_of(name, reader)
    assert counts.get("Agents", 1)
    assert counts.get("Runs", 1)
