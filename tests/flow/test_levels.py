"""Levels end to end: collectors, variants and cold starts, from the request to rows and tables."""

from typing import Any

import pytest

from schemas.level import Level
from tests.flow.clusters import Cluster, online, run

pytestmark = pytest.mark.xdist_group("flow")

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
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table.rows]
    return [row["part"] for row in rows if row["kind"] == "difference" and "query" in row["part"]]


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
    assert cluster.rows(SERIES, status.evaluation) == [("resource",)]
    assert differences(cluster, status.evaluation) == [
        "tracing framework over model, on query",
        "tracing system over model, on query",
        "tracing system over framework, on query",
    ]


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
