"""Levels end to end, from the request to rows and tables; collectors, variants, the stop rule."""

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from mlscope.exchange.traces import Trace
from schemas.level import Level
from tests.flow.clusters import Cluster, online, run
from tests.flow.manifests import model

BRIEFLY: dict[str, Any] = {"blocks": {"least": 2, "most": 2}}
CLUSTER = "cluster_with_packages"

RUNS = "SELECT run, variant, level FROM run WHERE evaluation = %s ORDER BY run"
SERIES = """SELECT DISTINCT split_part(span_name.text, '.', 1)
FROM span JOIN run USING (run_key) JOIN span_name USING (run_key, name)
WHERE evaluation = %s AND span.level >= 5 AND span.kind = 6 AND run.level = 5 ORDER BY 1"""
NAMES = """SELECT DISTINCT span.level, span_name.text
FROM span JOIN run USING (run_key) JOIN span_name USING (run_key, name)
WHERE evaluation = %s AND run.scenario = 'cold' AND span.level <= 2 ORDER BY 1, 2"""


def differences(cluster: Cluster, evaluation: str) -> list[str]:
    """Return what the table of levels says is the cost of what."""
    with cluster.client() as client:
        table = client.tables(evaluation, "levels")["levels"].table
    rows = table.records()
    return [row["part"] for row in rows if row["kind"] == "difference" and "query" in row["part"]]


def layers_by_run(cluster: Cluster, evaluation: str) -> dict[tuple[str, str], int]:
    """Return how many layers the table of them has, by run and variant."""
    sql = "SELECT run, variant FROM analysis_layers WHERE evaluation = %s"
    return Counter(cluster.rows(sql, evaluation))


def test_a_deep_request_measures_each_level_on_its_own(cluster: Cluster) -> None:
    status = run(
        cluster,
        "tiny-cnn",
        trace_level="system",
        scenarios=online(),
        blocks={"least": 2, "most": 2},
        collectors={"resource": {"rate_hz": 200}, "perf": False},
        serialised=True,
    )
    assert status.state == "analyzed"
    assert cluster.rows(RUNS, status.evaluation) == [
        ("b1-online-framework", "", Level.FRAMEWORK),
        ("b1-online-model", "", Level.MODEL),
        ("b1-online-system", "", Level.SYSTEM),
        ("b1-serialised-online-system", "serialised", Level.SYSTEM),
    ]
    found = layers_by_run(cluster, status.evaluation)
    assert found.keys() == {
        ("b1-online-framework", ""),
        ("b1-serialised-online-system", "serialised"),
    }
    assert len(set(found.values())) == 1
    assert cluster.rows(SERIES, status.evaluation) == [("resource",)]
    assert differences(cluster, status.evaluation) == [
        "tracing framework over model, on query",
        "tracing system over model, on query",
        "tracing system over framework, on query",
    ]


def test_a_streamed_run_is_bound_by_what_the_run_beside_it_measured_alone(cluster: Cluster) -> None:
    modes = ("ahead", "streamed")
    scenarios = [load for mode in modes for load in online(12, "batched", samples=mode)]
    status = run(cluster, "efficientnet-lite0", trace_level="model", scenarios=scenarios, **BRIEFLY)
    assert status.state == "analyzed"
    with cluster.client() as client:
        rows = client.tables(status.evaluation, "pipeline_stages")["pipeline_stages"].rows()
    prepare, predict, _ = rows
    conditions = (
        "SELECT run, (conditions ->> 'prepare_processes')::int FROM run WHERE evaluation = %s"
    )
    processes = dict(cluster.rows(conditions, status.evaluation))
    assert (prepare["stage"], prepare["servers"]) == ("prepare", processes[prepare["run"]])
    (alone,) = processes.keys() - {prepare["run"]}
    assert (predict["alone_from"], predict["slowdown_from"]) == (alone, alone)
    is_one = prepare["servers"] == 1
    assert prepare["alone_from"] == (f"{alone}, before the clock" if is_one else "this run")
    assert 0.0 < prepare["utilisation"] <= 1.0


def test_cold_starts_are_runs_of_processes_of_their_own(cluster: Cluster) -> None:
    cold = [{"name": "cold", "parameters": {"queries": 2, "warm": 2}}]
    status = run(cluster, "tiny-cnn", trace_level="model", scenarios=cold)
    assert status.state == "analyzed"
    assert cluster.rows(RUNS, status.evaluation) == [
        (f"b1-cold{opening}-model-{part}", "cold", Level.MODEL)
        for opening in (0, 1)
        for part in ("first", "warm")
    ]
    assert cluster.rows(NAMES, status.evaluation) == [(1, "query"), (2, "open"), (2, "predict")]
    opened = "SELECT count(DISTINCT conditions ->> 'opened') FROM run WHERE evaluation = %s"
    assert cluster.rows(opened, status.evaluation) == [(2,)]


def said_in(trace: Trace) -> list[tuple[str, str, int]]:
    """Return the users' spans: name, what they lie in, and in how many queries."""
    spans = {each.span: each for each in trace.spans}
    queries = defaultdict(set)
    for span in trace.spans:
        # Those of a negative block are mlscope's own, of batches prepared before the clock.
        if span.level != Level.APPLICATION or span.query >= 0 or span.block < 0:
            continue
        root = around = spans[span.parent or 0]
        while root.parent is not None:
            root = spans[root.parent]
        assert root.start_ns <= span.start_ns
        assert span.start_ns + span.duration_ns <= root.start_ns + root.duration_ns
        queries[span.name, around.name].add(root.query)
    return sorted((*names, len(found - {-1})) for names, found in queries.items())


def test_users_spans_by_nvtx_and_otlp_lie_in_their_queries(cluster: Cluster) -> None:
    manifest = {**model("identity"), "name": "said", "framework": {"name": "instrumented"}}
    asked = {"nvtx": True, "otlp": {"flush_s": 0.2}, "resource": False}
    status = run(cluster, manifest, trace_level="model", scenarios=online(4), collectors=asked)
    assert (status.state, status.runs[0].caveats) == ("analyzed", ())
    with cluster.client() as client:
        trace = client.trace(status.evaluation)
    assert said_in(trace) == [
        ("decide", "look up", 4),
        ("hit", "look up", 4),
        ("look up", "query", 4),
        ("own", "query", 4),
        ("pick", "serve", 4),
        ("sent", "pick", 4),
        ("serve", "query", 4),
    ]
    told = {each.name: json.loads(each.attributes or "{}") for each in trace.spans}
    assert (told["look up"]["domain"], told["look up"]["payload"]) == ("cache", 7)
    assert told["serve"]["service.name"] == "shop"


SEEN = """SELECT DISTINCT span_name.text FROM span
JOIN run USING (run_key) JOIN span_name USING (run_key, name)
WHERE evaluation = %s AND run.run = 'b1-cold0-system-first' AND span.kind = 6 ORDER BY 1"""


def test_a_deep_cold_start_is_seen_layer_by_layer(cluster: Cluster) -> None:
    cold = [{"name": "cold", "parameters": {"queries": 1, "warm": 3}}]
    switches = {"resource": True, "perf": False}
    asked: dict[str, Any] = {"scenarios": cold, "collectors": switches}
    status = run(cluster, "tiny-cnn", trace_level="system", **asked)
    assert status.state == "analyzed"
    assert ("resource.cpu_user",) in cluster.rows(SEEN, status.evaluation)
    with cluster.client() as client:
        table = client.tables(status.evaluation, "cold_layers")["cold_layers"].table
    rows = table.records()
    assert len(rows) == 8
    assert all(row["first"] > 0 and row["warm"] > 0 for row in rows)
    assert "onnxruntime does not report the weights of each layer" in " ".join(table.caveats)


def test_a_load_from_the_scheduler_goes_on_until_its_budget_ends(cluster: Cluster) -> None:
    rule = {"least": 1, "most": 20, "interval": 0.1, "budget_s": 1.5, "of": "result"}
    rate = {"name": "fixed_rate", "parameters": {"rate_hz": 100}}
    counted = {"name": "fixed_rate", "parameters": {"rate_hz": 100, "queries": 50}}
    status = run(cluster, scenarios=[rate, counted], blocks=rule)
    assert [each.answered for each in status.runs] == [150, 50]
    first, second = (" ".join(each.caveats) for each in status.runs)
    needed = "its 99th percentile needs 662 answered queries"
    assert f"ended at 150 queries, its budget of 1.5 s spent: {needed}, 150 were" in first
    assert f"ended at 50 queries, the most allowed: {needed}, 50 were" in second
    sql = "SELECT due_ns FROM query JOIN run USING (run_key) WHERE evaluation = %s AND run = %s"
    rows = cluster.rows(f"{sql} ORDER BY query", status.evaluation, status.runs[0].run)
    assert rows == [(number * 10_000_000,) for number in range(150)]
    sql = "SELECT run, blocks_ended FROM analysis_conditions WHERE evaluation = %s ORDER BY run"
    assert [ended for _, ended in cluster.rows(sql, status.evaluation)] == ["budget", "most"]


@pytest.mark.long
def test_a_cold_start_is_measured_again_until_the_most_openings(cluster: Cluster) -> None:
    rule = {"least": 1, "most": 4, "interval": 1e-6, "budget_s": 600, "of": "result"}
    status = run(cluster, scenarios=["cold"], blocks=rule)
    assert (status.state, {each.state for each in status.runs}) == ("analyzed", {"recorded"})
    further = [f"b1-cold0-model-3-{end}" for end in ("first", "warm")]
    assert [each.run for each in status.runs][6:] == further
    sql = "SELECT DISTINCT count FROM analysis_cold_start WHERE evaluation = %s AND part = 'open'"
    assert cluster.rows(sql, status.evaluation) == [(4,)]
