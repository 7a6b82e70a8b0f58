"""One transaction for many batches: each once for ever, whoever brings it and however often."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mlscope.database.statements import read_statements
from schemas.run import RunFailed, Tally
from schemas.values.identity import run_key
from services.collector import store as module
from services.collector.completeness import StoredRows
from services.collector.errors import DatabaseAway, RefusedRows
from services.collector.runs import RunEnded, run_row
from services.collector.saving import prepared_of
from services.collector.store import Prepared, Store, migrate
from tests.services.collector.builders import (
    GIVEN_UP,
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_trace,
    some_outputs,
    some_queries,
)
from tests.services.collector.test_migrations import COMMON, OWN

KEY = run_key("e1", "r0", 1)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    migrate(database_url)
    store = Store(database_url)
    yield store
    store.close()


def _prepared(*batches: Any) -> list[Prepared]:
    return [prepared_of(batch, REQUESTED_NS) for batch in batches]


def _ask(database_url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database_url) as session:
        return session.execute(query.encode()).fetchall()


def _ended(fact: RunEnded, cause: str = "c0") -> dict[str, Any]:
    return run_row(fact, a_plan().plan, REQUESTED_NS, cause)


def test_batches_are_stored_with_their_names(store: Store, database_url: str) -> None:
    assert store.save(_prepared(a_trace(), some_queries(), some_outputs())) == 9
    store.end_run(_ended(a_completion()))
    rows = _ask(database_url, "SELECT name, level, parent, attributes FROM spans ORDER BY span")
    assert rows[0] == ("predict", 2, None, None)
    assert rows[2] == ("predict", 2, 1, {"index": 1})
    assert _ask(database_url, "SELECT count(*), count(due_ns) FROM query") == [(3, 2)]


def test_few_names_are_remembered_and_all_are_stored(
    store: Store, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NAMES_REMEMBERED", 5)
    monkeypatch.setattr(module, "RUNS_REMEMBERED", 2)
    traces = [a_trace(run=f"r{number}") for number in range(10)]
    names = {name for trace in traces for name in _prepared(trace)[0].names}
    for trace in (*traces, *traces):
        store.save(_prepared(trace))
        assert len(store._named) <= 2
        assert sum(map(len, store._named.values())) <= 5
    stored = _ask(database_url, "SELECT count(*), count(DISTINCT run_key) FROM span_name")
    assert stored == [(10 * len(names), 10)]


def test_a_redelivered_batch_adds_nothing(store: Store, database_url: str) -> None:
    assert store.save(_prepared(a_trace(0), a_trace(1))) == 8
    assert store.save(_prepared(a_trace(1), a_trace(2), a_trace(2))) == 4
    assert _ask(database_url, "SELECT count(*) FROM span") == [(12,)]


def test_many_collectors_store_each_batch_once(store: Store, database_url: str) -> None:
    batches = _prepared(*(a_trace(sequence) for sequence in range(40)))
    with ThreadPoolExecutor(4) as pool, ExitStack() as stack:
        stores = [stack.enter_context(closing(Store(database_url))) for _ in range(4)]
        saves = [each.save for each in stores]
        stored = list(pool.map(lambda save, way: save(batches[::way]), saves, (1, -1, 1, -1)))
    assert sum(stored) == 160
    assert _ask(database_url, "SELECT count(*) FROM span") == [(160,)]


@pytest.mark.parametrize("text", [b"{torn", b"[" * 20_000 + b"]" * 20_000])
def test_refused_rows_leave_nothing(store: Store, database_url: str, text: bytes) -> None:
    """Lists nested too deep are an OperationalError, as if the server were away for ever."""
    bad = a_trace(1, attribute_rows=(0,), attribute_texts=(text,))
    with pytest.raises(RefusedRows):
        store.save(_prepared(a_trace(0), bad))
    assert _ask(database_url, "SELECT count(*) FROM batch") == [(0,)]
    assert store.save(_prepared(a_trace(0))) == 4


def test_a_run_waits_until_its_batches_are_there(store: Store) -> None:
    store.end_run(_ended(a_completion()))
    assert not store.waiting()[0].is_complete
    store.save(_prepared(a_trace(), some_queries(), some_outputs()))
    waiting = store.waiting()[0]
    assert waiting.is_complete
    assert (waiting.run_key, waiting.rows, waiting.batches) == (KEY, StoredRows(4, 3, 2), 3)
    store.settle(KEY, "recorded", 3)
    assert store.waiting() == []


@pytest.mark.parametrize(("pacing", "may_get_queries"), [("remote", True), ("local", False)])
def test_a_remote_run_that_failed_may_have_more_queries(
    store: Store, pacing: str, may_get_queries: bool
) -> None:
    failed = RunFailed(evaluation="e1", run="r0", attempt=1, agent="a1", error="open", message="")
    store.end_run(run_row(failed, a_plan(pacing).plan, REQUESTED_NS, "c0"))
    (waiting,) = store.waiting()
    assert (waiting.is_complete, waiting.may_get_queries) == (True, may_get_queries)


def test_batches_after_the_verdict_are_stored_and_counted(store: Store, database_url: str) -> None:
    store.end_run(_ended(a_completion()))
    store.save(_prepared(a_trace()))
    store.settle(KEY, "incomplete", store.waiting()[0].batches)
    late = "SELECT run, batches FROM late"
    assert _ask(database_url, late) == []
    store.save(_prepared(a_trace(), some_queries(), some_outputs()))
    assert _ask(database_url, late) == [("r0", 2)]
    assert _ask(database_url, "SELECT count(*) FROM query") == [(3,)]


def test_an_end_repeated_does_not_reopen_a_run(store: Store) -> None:
    store.end_run(_ended(a_completion(tally=Tally())))
    store.settle(KEY, "recorded", 0)
    store.end_run(_ended(a_completion(tally=Tally())))
    assert store.waiting() == []


def test_an_interrupted_attempt_is_kept_and_may_yet_complete(
    store: Store, database_url: str
) -> None:
    store.end_run(_ended(GIVEN_UP))
    store.end_run(_ended(a_completion(), "c1"))
    assert [(each.cause, each.is_interrupted) for each in store.waiting()] == [("c1", False)]
    query = "SELECT outcome, interrupted, spans FROM run"
    assert _ask(database_url, query) == [("completed", "agent lost", 4)]


def test_an_interrupted_attempt_waits_to_be_counted_once_and_again_after_a_word(
    store: Store,
) -> None:
    store.end_run(_ended(GIVEN_UP))
    store.save(_prepared(a_trace(), some_queries(status=bytes([0, 1, 1]))))
    (waiting,) = store.waiting()
    assert (waiting.is_interrupted, waiting.is_complete) == (True, False)
    assert (waiting.rows, waiting.batches) == (StoredRows(4, 3, 0), 2)
    assert store.failed_queries(KEY) == 2
    assert store.purgeable() == []
    store.settle(KEY, "interrupted", 2)
    assert store.waiting() == []
    assert [attempt.is_only_attempt for attempt in store.purgeable()] == [False]
    store.end_run(_ended(a_completion(), "c1"))
    assert [each.cause for each in store.waiting()] == ["c1"]


def test_facts_of_an_interrupted_attempt_do_not_settle_its_agents_word(store: Store) -> None:
    store.end_run(_ended(GIVEN_UP))
    store.end_run(_ended(a_completion(), "c1"))
    store.settle(KEY, "interrupted", 0)
    assert [each.cause for each in store.waiting()] == ["c1"]


def test_a_failed_run_says_why(store: Store, database_url: str) -> None:
    failed = RunFailed(
        evaluation="e1", run="r0", attempt=1, agent="a1", error="open", message="no\0 model"
    )
    store.end_run(_ended(failed))
    query = "SELECT outcome, error, message, state, monotonic_ns FROM run"
    assert _ask(database_url, query) == [("failed", "open", "no model", "ended", None)]


def test_messages_are_dropped_once(store: Store) -> None:
    store.end_run(_ended(a_completion()))
    assert store.purgeable() == []
    store.settle(KEY, "recorded", 0)
    (settled,) = store.purgeable()
    assert settled.is_only_attempt
    store.purged([KEY])
    assert store.purgeable() == []


def test_an_attempt_given_up_may_not_be_the_last(store: Store) -> None:
    store.end_run(_ended(a_completion()))
    store.settle(KEY, "recorded", 0)
    assert [each.is_only_attempt for each in store.purgeable()] == [True]
    store.end_run(_ended(GIVEN_UP, "c1"))
    assert [each.is_only_attempt for each in store.purgeable()] == [False]


def test_attempts_that_must_stay_hold_up_no_others(store: Store, database_url: str) -> None:
    store.end_run(_ended(a_completion(tally=Tally())))
    store.settle(KEY, "recorded", 0)
    _ask(
        database_url,
        """INSERT INTO run SELECT (jsonb_populate_record(whole, jsonb_build_object(
            'run_key', number, 'ended_at', now() - interval '1 day'))).*
        FROM run AS whole, generate_series(1, 250) AS number RETURNING 1""",
    )
    pages = [[each.run_key for each in store.purgeable()] for _ in range(4)]
    assert [len(page) for page in pages] == [100, 100, 51, 100]
    assert len({key for page in pages[:3] for key in page}) == 251
    assert (pages[2][-1], pages[3]) == (KEY, pages[0])


def test_a_lost_connection_is_opened_anew(store: Store, database_url: str) -> None:
    store.save(_prepared(a_trace(0)))
    _ask(
        database_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    with pytest.raises(DatabaseAway):
        store.save(_prepared(a_trace(1)))
    assert store.save(_prepared(a_trace(1))) == 4


def test_a_database_without_tables_is_away(database_url: str) -> None:
    with closing(Store(database_url)) as store, pytest.raises(DatabaseAway):
        store.save(_prepared(a_trace()))


VERSIONS = [*COMMON, *(f"postgresql/{name}" for name in OWN["postgresql"])]


def test_migrating_in_parallel_and_again_is_safe(database_url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        profiles = list(pool.map(migrate, [database_url] * 3))
    assert profiles == ["postgresql"] * 3
    rows = _ask(database_url, "SELECT version FROM schema_version ORDER BY version")
    assert [version for (version,) in rows] == VERSIONS


def test_every_table_and_column_is_described(database_url: str) -> None:
    migrate(database_url)
    missing = _ask(
        database_url,
        """SELECT c.relname, a.attname FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum >= 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
        AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid) IS NULL)""",
    )
    assert missing == []


def test_trends_add_up_over_runs(store: Store, database_url: str) -> None:
    store.save(_prepared(some_queries(0), some_queries(1)))
    store.end_run(_ended(a_completion()))
    query = "SELECT model, runs, queries, failed, least_ns, mean_ns, most_ns FROM trend"
    assert _ask(database_url, query) == [("identity", 1, 6, 0, 9, 9.0, 9)]


def test_both_profiles_show_the_same_trend() -> None:
    folder = Path(module.__file__).parent / "migrations"
    plain, timescale = folder / "postgresql/0002_trend.sql", folder / "timescaledb/0004_trend.sql"
    assert plain.read_text() == timescale.read_text()


def test_the_row_of_a_run_fills_the_tables_columns(database_url: str) -> None:
    migrate(database_url)
    own = {"ended_at", "recorded_at", "purged_at", "settled_batches"}
    columns = _ask(
        database_url,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'run'",
    )
    assert set(_ended(a_completion())) == {name for (name,) in columns} - own


def test_every_statement_is_used() -> None:
    folder = Path(module.__file__).parent
    source = (folder / "store.py").read_text()
    for name in read_statements(folder / "queries.sql"):
        assert f'"{name}"' in source or name.startswith("copy_")
