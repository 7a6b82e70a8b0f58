"""A plan made here, run on a machine without broker or database, brought back: one of many."""

import json
from pathlib import Path

import numpy as np
import pytest

from cli.offline.bundle import Bundle, read
from schemas.batch import QueriesAnswered
from schemas.status import EvaluationStatus
from schemas.values.identity import run_key
from tests.flow.clusters import Cluster, assert_well, online, run

QUERIES = 6
SPANS_A_QUERY = {"model": 2, "framework": 10}


@pytest.fixture(scope="module")
def bundle(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle that was made of a plan, the cluster being unknown there."""
    folder = tmp_path_factory.mktemp("borrowed")
    plan, bundle = folder / "plan.json", folder / "run.bundle"
    scenario = f"online:queries={QUERIES}"
    wish = ("tiny-cnn", "--scenario", scenario, "--trace-level", "framework")
    cluster.mlscope("plan", *wish, "--agent", "borrowed", "--out", str(plan))
    elsewhere = Cluster(folder / "nothing", {"MLSCOPE_NATS_URL": "nats://127.0.0.1:1"})
    elsewhere.mlscope("agent", "--plan", str(plan), "--out", str(bundle))
    return bundle


@pytest.fixture(scope="module")
def imported(cluster: Cluster, bundle: Path) -> EvaluationStatus:
    """Return the evaluation the bundle became."""
    evaluation = cluster.mlscope("import", str(bundle)).strip()
    with cluster.client() as client:
        return client.evaluation(evaluation).status()


def test_it_ends_analyzed_like_one_that_ran_here(
    cluster: Cluster, imported: EvaluationStatus
) -> None:
    here = run(cluster, "tiny-cnn", scenarios=online(QUERIES), trace_level="framework")
    assert imported.state == here.state == "analyzed"
    assert imported.tables == here.tables
    assert [(one.level, one.answered, one.spans) for one in imported.runs] == [
        (one.level, one.answered, one.spans) for one in here.runs
    ]
    assert imported.agents == ("borrowed",)


def test_its_rows_are_stored_once(cluster: Cluster, imported: EvaluationStatus) -> None:
    for one in imported.runs:
        key = run_key(imported.evaluation, one.run, one.attempt)
        # Each query's batch is prepared and answered before the clock, with three spans.
        spans = QUERIES * (SPANS_A_QUERY[one.level.name.lower()] + 3)
        counted = "SELECT count(*), count(DISTINCT span) FROM span WHERE run_key = %s"
        assert cluster.rows(counted, key) == [(spans, spans)]


def test_its_tables_are_read_like_any_others(cluster: Cluster, imported: EvaluationStatus) -> None:
    told = json.loads(cluster.mlscope("show", imported.evaluation, "-o", "json"))
    assert told
    with cluster.client() as client:
        assert client.tables(imported.evaluation)["layers"].rows()


def test_importing_again_makes_no_other(
    cluster: Cluster, bundle: Path, imported: EvaluationStatus
) -> None:
    assert cluster.mlscope("import", str(bundle)).strip() == imported.evaluation


@pytest.mark.long
def test_variants_keep_their_own_numbers(cluster: Cluster, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "variants.bundle"
    loads = ("--scenario", "online:queries=3", "--scenario", "cold:queries=1,warm=2")
    wish = ("tiny-cnn", *loads, "--serialised", "--agent", "lent", "--out", str(plan))
    cluster.mlscope("plan", *wish)
    cluster.mlscope("agent", "--plan", str(plan), "--out", str(out))
    evaluation = cluster.mlscope("import", str(out)).strip()
    with cluster.client() as client:
        runs = client.evaluation(evaluation).status().runs
    bundle = read(out)
    assert {one.run for one in runs if one.answered} == set(bundle.positions)
    for one in runs:
        key = run_key(evaluation, one.run, one.attempt)
        stored = cluster.rows("SELECT sum(service_ns) FROM query WHERE run_key = %s", key)
        assert stored == [(service_ns(bundle, one.run),)]


def test_a_bundle_of_counters_alone_is_an_evaluation(cluster: Cluster, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "counters.bundle"
    wish = ("tiny-cnn", "--scenario", "online:queries=2", "--agent", "counting")
    cluster.mlscope("plan", *wish, "--out", str(plan))
    told = json.loads(plan.read_text())
    (session,) = told["plan"]["sessions"]
    session |= {"variant": "counters", "session": "b1-counters"}
    session["runs"][0] |= {"level": "hardware", "run": "counted"}
    plan.write_text(json.dumps(told))
    cluster.mlscope("agent", "--plan", str(plan), "--out", str(out))
    evaluation = cluster.mlscope("import", str(out)).strip()
    with cluster.client() as client:
        status = client.evaluation(evaluation).status()
    assert status.state == "analyzed"
    assert [(one.answered, one.level.name) for one in status.runs] == [(2, "HARDWARE")]


def service_ns(bundle: Bundle, run: str) -> int:
    """Return how long all queries of a run took, by the bundle."""
    answered = [each for each in bundle.facts(run) if isinstance(each, QueriesAnswered)]
    return sum(int(np.frombuffer(each.service_ns, "<i8").sum()) for each in answered)


def test_a_bundle_that_was_cut_is_refused(cluster: Cluster, bundle: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.bundle"
    cut.write_bytes(bundle.read_bytes()[:-200])
    assert cluster.mlscope("import", str(cut), code=2) == ""
    assert_well(cluster)
