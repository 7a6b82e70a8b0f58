"""Rows the collector wrote, read back whole; tables kept, as rows that SQL users can select."""

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cli.cluster.servers.postgres import Postgres
from mlscope.tracing.batches import trace_batch
from schemas.analysis import Column, Table
from schemas.evaluation import MeasuredRun
from schemas.request import ShowTables
from schemas.run import RunFailed
from schemas.values.identity import run_key
from services.analyzer.analysis import Analyzed, analyze
from services.analyzer.correlation import METHODS
from services.analyzer.errors import CountMissing, DatabaseAway, NoRuns, RowsMissing
from services.analyzer.frames.bounds import Bounds
from services.analyzer.store import MOST_ROWS, Store, migrate
from services.analyzer.tables import ANALYSES
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_linked_trace,
    a_plan,
    a_trace,
    an_attempt,
    some_outputs,
    some_queries,
)

MEASURED = MeasuredRun(run="r0", attempt=1, end="completed", agent="a1")
KEY = run_key("e1", "r0", 1)
ALL = ShowTables(evaluation="e1")


@pytest.fixture
def rows_url(database_url: str) -> str:
    """Return a database that holds one recorded run."""
    collector.migrate(database_url)
    migrate(database_url)
    with closing(collector.Store(database_url)) as rows:
        batches = (a_trace(count=5), some_queries(), some_outputs())
        rows.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
        rows.end_run(run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0"))
    return database_url


@pytest.fixture
def store(rows_url: str) -> Iterator[Store]:
    with closing(Store(rows_url)) as store:
        yield store


def _ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as session:
        return session.execute(query.encode()).fetchall()


def test_frames_hold_the_rows_that_were_stored(store: Store) -> None:
    frames = store.read("e1", [MEASURED])
    (run,) = frames.measured
    assert (run.row.run_key, run.row.level, run.row.model) == (KEY, 2, "identity")
    assert run.row.conditions["framework_version"] == "1.23.0"
    assert run.spans["name"].unique().to_list() == ["predict"]
    assert run.spans["parent"].to_list() == [None, 0, 1, 2, 3]
    assert run.queries["due_ns"].to_list() == [None, 1, 2]
    assert run.queries["service_ns"].null_count() == 3
    assert run.outputs.height == 2
    assert frames.caveats == ()


def test_a_run_that_was_cut_off_is_read_once_its_count_is_noted(
    rows_url: str, store: Store
) -> None:
    measured = MEASURED.model_copy(update={"end": "cancelled"})
    with pytest.raises(CountMissing, match="0 of 1 stored counts of run r0"):
        store.read("e1", [measured])
    with closing(collector.Store(rows_url)) as rows:
        rows.settle(KEY, "incomplete", 3)
    assert [row.state for row in store.read("e1", [measured]).attempts] == ["incomplete"]


def test_a_state_that_a_table_shows_is_read_once_it_is_noted(rows_url: str, store: Store) -> None:
    failed = RunFailed(evaluation="e1", run="r0", attempt=2, agent="a1", error="open", message="")
    with closing(collector.Store(rows_url)) as rows:
        rows.end_run(run_row(failed, a_plan().plan, REQUESTED_NS, "c1"))
        with pytest.raises(CountMissing, match="run r0"):
            store.read("e1", [MEASURED])
        assert len(store.read("e1", [MEASURED], awaits_counts=False).attempts) == 2
        rows.settle(run_key("e1", "r0", 2), "recorded", 0)
    assert [row.state for row in store.read("e1", [MEASURED]).attempts] == ["ended", "recorded"]


def test_layers_are_read_with_their_nature(rows_url: str, store: Store) -> None:
    conv = (
        b'{"index": 4, "type": "Conv", "shape": [1, 8], "flops": 160, "memory_bytes": 32,'
        b' "memory_kind": "outputs", "bytes_read": "many"}'
    )
    texts = (conv, b'{"type": "Relu"}')
    attributes = {"attribute_rows": (0, 1), "attribute_texts": texts}
    ids = np.array([90, 91], dtype="<i8").tobytes()
    batch = a_trace(9, count=2, span=ids, level=b"\3\3", **attributes)
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(batch, REQUESTED_NS)])
    (run,) = store.read("e1", [MEASURED]).measured
    layers = run.spans.filter(pl.col("level") == 3)
    assert sorted(layers["layer"].to_list(), key=str) == [4, None]
    assert set(run.layers.select("layer", "type", "shape").iter_rows()) == {
        (4, "Conv", "[1, 8]"),
        (None, "Relu", None),
    }
    costs = ("flops", "memory_bytes", "memory_kind", "bytes_read", "bytes_written")
    assert run.layers.filter(pl.col("type") == "Conv").select(*costs).rows() == [
        (160, 32, "outputs", None, None)
    ]


def test_device_rows_are_read_with_their_links(rows_url: str, store: Store) -> None:
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(a_linked_trace(9), REQUESTED_NS)])
    frames = store.read("e1", [MEASURED])
    links = ("kind", "correlation", "device", "stream", "query")
    found = frames.measured[0].spans.filter(pl.col("level") == 5).select(*links).rows()
    assert found == [(1, 33, None, None, 0), (2, 33, 1, 7, -1)]
    others = frames.measured[0].spans.filter(pl.col("level") != 5).select(*links[:-1]).unique()
    assert others.rows() == [(0, None, None, None)]


def test_device_rows_are_read_with_what_their_sources_say(rows_url: str, store: Store) -> None:
    told = b'{"device": 1, "graph_node": 6, "flops": 8, "occupancy": "high", "layer": "conv1"}'
    batch = a_linked_trace(9, attribute_rows=(1,), attribute_texts=(told,))
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(batch, REQUESTED_NS)])
    (run,) = store.read("e1", [MEASURED]).measured
    assert run.device_attributes.rows() == [(2, 6, None, 8.0, None, None, None)]
    assert run.named_layers == {2: "conv1"}
    assert run.device_work.select("launch", "graph_node", "flops").rows() == [(1, 6, 8.0)]


@pytest.mark.parametrize(("told", "kind"), [(b'"DtoH"', "DtoH"), (b'"sideways"', None)])
def test_a_copy_is_read_with_its_direction(
    rows_url: str, store: Store, told: bytes, kind: str | None
) -> None:
    attributes = (b'{"device": 1, "copy_kind": ' + told + b"}",)
    parts = {"kind": bytes([1, 3]), "attribute_rows": (1,), "attribute_texts": attributes}
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(a_linked_trace(9, **parts), REQUESTED_NS)])
    (run,) = store.read("e1", [MEASURED]).measured
    assert run.device_work.select("kind", "copy_kind").rows() == [(3, kind)]


def test_counters_that_were_asked_for_are_read_by_kernel(rows_url: str, store: Store) -> None:
    told = (
        b'{"counters": {"lts__t_sectors.sum": 7, "dram__bytes_read.sum": 1, "odd": "n/a"}}',
        b'{"counters": [1, 2]}',
    )
    parts = {"kind": bytes([2, 2]), "attribute_rows": (0, 1), "attribute_texts": told}
    replay = a_linked_trace(9, level=bytes([6, 6]), **parts)
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(replay, REQUESTED_NS)])
    (run,) = store.read("e1", [MEASURED]).measured
    assert run.counters.select("metric", "value").rows() == [("lts__t_sectors.sum", 7.0)]
    assert run.device_work.join(run.counters, on="span").height == 1


def test_the_readme_s_query_finds_the_counters_asked_for(rows_url: str) -> None:
    folder = Path(__file__).parents[3] / "services" / "agent" / "collectors"
    query = re.findall(
        r"^    SELECT .*?;", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )[0]
    told = b'{"layer": "conv1", "counters": {"lts__t_sectors.sum": 7, "other.sum": 1}}'
    replay = a_linked_trace(9, attribute_rows=(1,), attribute_texts=(told,))
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(replay, REQUESTED_NS)])
    ((_, layer, metric, value),) = _ask(rows_url, query.replace("'...'", "'e1'"))
    assert (layer, metric, value) == ("conv1", "lts__t_sectors.sum", 7)


def test_sampled_series_are_read_with_their_values(rows_url: str, store: Store) -> None:
    told = (
        b'{"value": 120.5, "unit": "W", "device": 1, "counted_share": 0.5}',
        b'{"value": "high", "unit": "W"}',
    )
    batch = a_linked_trace(9, kind=bytes([6, 6]), attribute_rows=(0, 1), attribute_texts=told)
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(batch, REQUESTED_NS)])
    (run,) = store.read("e1", [MEASURED]).measured
    values = run.series.select("device", "value", "unit", "counted_share").rows()
    assert values == [(1, 120.5, "W", 0.5)]


def test_spans_of_half_read_queries_are_left_out_and_it_is_said(rows_url: str) -> None:
    rows = [
        (40 + n, -1, 1 + n % 2, 1, 100 * (n // 2) + n % 2, 90, 0, n // 2, 0, b"") for n in range(6)
    ]
    batch = trace_batch(an_attempt(), 9, rows, {"query": 1})
    with closing(collector.Store(rows_url)) as stored:
        stored.save([prepared_of(batch, REQUESTED_NS)])
    with closing(Store(rows_url, Bounds(spans=8, queries=9, outputs=9))) as store:
        frames = store.read("e1", [MEASURED])
    assert frames.caveats[0] == "r0: the first 8 of 11 spans were read"
    assert "complete queries count" in frames.caveats[1]
    assert frames.measured[0].spans.filter(pl.col("start_ns") >= 100).height == 0


def test_what_is_not_read_is_said(rows_url: str) -> None:
    with closing(Store(rows_url, Bounds(spans=3, queries=2, outputs=9))) as store:
        frames = store.read("e1", [MEASURED])
    assert (frames.measured[0].spans.height, frames.measured[0].queries.height) == (3, 2)
    assert frames.caveats == (
        "r0: the first 3 of 5 spans were read",
        "r0: the first 2 of 3 queries were read",
    )


def test_samples_and_named_layers_have_bounds_of_their_own(rows_url: str) -> None:
    samples = tuple(b'{"value": %d, "unit": "W"}' % n for n in range(2))
    named = (b'{"layer": "conv1"}', b'{"layer": "conv2"}')
    both = {"attribute_rows": (0, 1)}
    watts = a_linked_trace(9, kind=bytes([6, 6]), attribute_texts=samples, **both)
    kernels = a_linked_trace(10, kind=bytes([2, 2]), attribute_texts=named, **both)
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(batch, REQUESTED_NS) for batch in (watts, kernels)])
    with closing(Store(rows_url, Bounds(outputs=1))) as store:
        frames = store.read("e1", [MEASURED])
    (run,) = frames.measured
    assert (run.series.height, len(run.named_layers)) == (2, 2)
    assert frames.caveats == ("r0: the first 1 of 2 outputs were read",)
    with closing(Store(rows_url, Bounds(samples=1, named_layers=1))) as store:
        frames = store.read("e1", [MEASURED])
    (run,) = frames.measured
    assert (run.series["value"].to_list(), run.named_layers) == ([0.0], {1: "conv1"})
    assert frames.caveats == (
        "r0: the first 1 of 2 sampled values were read",
        "r0: the first 1 of 2 spans that name their layer were read",
    )


def test_a_run_that_no_agent_ended_is_named(store: Store) -> None:
    gone = MeasuredRun(run="r9", attempt=3, end="failed", agent="a1", cause="agent lost")
    frames = store.read("e1", [MEASURED, gone])
    assert (frames.runs[1].run, frames.runs[1].message) == ("r9", "agent lost")
    assert frames.measured[1].queries.is_empty()


@pytest.mark.parametrize(("kind", "stored"), [("spans", 5), ("queries", 3)])
def test_rows_that_were_stored_and_are_gone_are_named(store: Store, kind: str, stored: int) -> None:
    larger = MEASURED.model_copy(update={kind: stored + 1})
    with pytest.raises(RowsMissing, match=f"has {stored} of {stored + 1} stored {kind} of run r0"):
        store.read("e1", [larger])
    store.read("e1", [MEASURED.model_copy(update={kind: stored})])


def test_spans_of_a_run_that_is_incomplete_are_not_counted(store: Store) -> None:
    incomplete = MEASURED.model_copy(update={"end": "incomplete", "spans": 6})
    assert store.read("e1", [incomplete]).measured[0].spans.height == 5


def test_rows_of_a_run_without_its_own_row_do_not_count(rows_url: str, store: Store) -> None:
    with closing(collector.Store(rows_url)) as rows:
        rows.save([prepared_of(some_queries(run="r1"), REQUESTED_NS)])
    second = MEASURED.model_copy(update={"run": "r1", "queries": 3})
    with pytest.raises(RowsMissing, match="0 of 3 stored queries of run r1"):
        store.read("e1", [MEASURED, second])


def test_an_evaluation_without_runs_is_an_error(store: Store) -> None:
    with pytest.raises(NoRuns):
        store.read("e2", [MEASURED])


def test_tables_come_back_as_they_were(store: Store) -> None:
    done = analyze(store.read("e1", [MEASURED]))
    for _ in range(2):
        store.write("e1", done)
    assert store.tables(ALL).tables == done.tables
    named = store.tables(ShowTables(evaluation="e1", tables=("layers", "latency")))
    assert [table.name for table in named.tables] == ["latency", "layers"]
    assert store.tables(ShowTables(evaluation="e2")).tables == ()


def test_a_name_too_long_for_an_index_is_no_lost_database(store: Store) -> None:
    """One that is lost is waited for, without end."""
    done = analyze(store.read("e1", [MEASURED]))
    name = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(200))
    long = tuple({**summary, "model": name} for summary in done.summaries)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        store.write("e1", replace(done, summaries=long))


def test_rows_of_a_table_come_in_pages(store: Store) -> None:
    column = Column(name="n", type="int")
    rows = tuple((n,) for n in range(MOST_ROWS + 1))
    table = Table(name="latency", title="Latency", columns=(column,), rows=rows)
    store.write("e1", Analyzed((table,), "d", {}))
    first = store.tables(ALL)
    assert (len(first.tables[0].rows), first.total_rows) == (MOST_ROWS, {"latency": MOST_ROWS + 1})
    assert store.tables(ALL.model_copy(update={"offset": MOST_ROWS})).tables[0].rows == rows[-1:]
    few = store.tables(ALL.model_copy(update={"offset": 3, "limit": 2}))
    assert few.tables[0].rows == ((3,), (4,))


def test_rows_come_in_order_wherever_they_lie(rows_url: str, store: Store) -> None:
    column = Column(name="n", type="int")
    long, short = (
        Table(name=name, title="T", columns=(column,), rows=tuple((n,) for n in range(count)))
        for name, count in (("nine_rows", 9), ("two_rows", 2))
    )
    store.write("e1", Analyzed((long, short), "d", {}))
    with psycopg.connect(rows_url) as session:
        session.execute("UPDATE analysis_row SET cells = cells WHERE ordinal < 4")
    unindexed = "-c enable_indexscan=off -c enable_bitmapscan=off -c enable_indexonlyscan=off"
    with closing(Store(make_conninfo(rows_url, options=unindexed))) as reader:
        found = reader.tables(ALL)
    assert found.tables == (long, short)
    assert found.total_rows == {"nine_rows": 9, "two_rows": 2}


def test_batches_that_come_late_are_a_caveat(rows_url: str, store: Store) -> None:
    done = analyze(store.read("e1", [MEASURED]))
    store.write("e1", done)
    with closing(collector.Store(rows_url)) as rows:
        rows.settle(KEY, "incomplete", rows.waiting()[0].batches)
        assert store.tables(ALL).tables == done.tables
        rows.save([prepared_of(a_trace(7), REQUESTED_NS)])
    latency = store.tables(ALL).tables[0]
    assert latency.caveats[-1].startswith("r0, attempt 1: 1 batch came after its rows")


def test_sql_users_select_typed_columns(rows_url: str, store: Store) -> None:
    done = analyze(store.read("e1", [MEASURED]))
    store.write("e1", done)
    query = "SELECT run, count, trimmed_mean FROM analysis_latency WHERE evaluation = 'e1'"
    assert _ask(rows_url, query) == [("r0", 3, 9.0)]
    assert _ask(rows_url, "SELECT span, parent, method FROM span_tree ORDER BY span")[:2] == [
        (0, None, "none"),
        (1, 0, "captured"),
    ]


def test_views_are_described_and_migrating_again_changes_nothing(rows_url: str) -> None:
    migrate(rows_url)
    query = """SELECT c.relname, count(*), count(col_description(c.oid, a.attnum))
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 2
    WHERE c.relkind = 'v' AND c.relname LIKE 'analysis_%'
        AND c.relnamespace = 'public'::regnamespace GROUP BY 1"""
    described = {name: (columns, texts) for name, columns, texts in _ask(rows_url, query)}
    for analysis in ANALYSES:
        count = len(analysis.columns)
        assert described[f"analysis_{analysis.name}"] == (count, count)


def test_a_database_without_tables_is_away(database_url: str) -> None:
    with closing(Store(database_url)) as store, pytest.raises(DatabaseAway):
        store.read("e1", [MEASURED])


def _asked_for_a_minute(store: Store) -> None:
    for _ in range(600):
        store.tables(ALL)
        time.sleep(0.1)


def test_the_first_question_after_a_restart_is_answered(data_folder: Path) -> None:
    server = Postgres(data_folder, durable=False).start()
    try:
        collector.migrate(server.admin_url())
        migrate(server.admin_url())
        with closing(Store(server.admin_url())) as store:
            assert store.tables(ALL).tables == ()
            server.kill()
            # A backend goes on for as long as it does not see that its postmaster is gone.
            with pytest.raises(DatabaseAway):
                _asked_for_a_minute(store)
            server.start()
            assert store.tables(ALL).tables == ()
            server.kill()
            server.start()
            assert store.tables(ALL).tables == ()
    finally:
        server.stop()


def test_every_way_to_a_parent_is_explained(rows_url: str) -> None:
    told = "SELECT col_description('span_tree'::regclass, attnum) FROM pg_attribute"
    ((comment,),) = _ask(
        rows_url, f"{told} WHERE attrelid = 'span_tree'::regclass AND attname = 'method'"
    )
    assert [each for each in METHODS if each not in comment] == []
