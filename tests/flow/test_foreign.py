"""A trace that another tool wrote, imported: stored, correlated and analyzed like any other."""

import json
from pathlib import Path

import pytest

from mlscope.importing.reading import read_foreign
from schemas.status import EvaluationStatus
from tests.flow.clusters import Cluster, assert_well

FILES = Path("tests/mlscope/importing/files")


@pytest.fixture(scope="module")
def imported(cluster: Cluster) -> EvaluationStatus:
    """Return the evaluation that a trace of torch.profiler became."""
    wanted = ("--model", "small-net", "--batch-size", "2")
    file = str((FILES / "kineto_cpu.json").resolve())
    evaluation = cluster.mlscope("import", file, *wanted).strip()
    with cluster.client() as client:
        return client.evaluation(evaluation).status()


def test_it_ends_analyzed(imported: EvaluationStatus) -> None:
    assert imported.state == "analyzed"
    (run,) = imported.runs
    assert (run.answered, run.spans, imported.model) == (3, 72, "small-net:0.0.0")
    assert imported.agents == ("kineto-vm",)


def test_its_spans_are_in_one_tree(cluster: Cluster, imported: EvaluationStatus) -> None:
    placed = (
        "SELECT span_tree.method, count(*) FROM span_tree JOIN run USING (run_key)"
        " WHERE run.evaluation = %s GROUP BY 1 ORDER BY 1"
    )
    assert cluster.rows(placed, imported.evaluation) == [("containment", 69), ("none", 3)]


def test_its_layers_have_a_table(cluster: Cluster, imported: EvaluationStatus) -> None:
    with cluster.client() as client:
        rows = client.tables(imported.evaluation)["layers"].rows()
    assert "aten::conv2d" in {row["name"] for row in rows}


def test_a_file_of_no_tool_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    strange = tmp_path / "strange.json"
    strange.write_text('{"traceEvents": [{"ph": "X"')
    assert cluster.mlscope("import", str(strange), code=2) == ""
    assert_well(cluster)


def test_an_export_is_imported_with_the_same_spans(
    cluster: Cluster, imported: EvaluationStatus, tmp_path: Path
) -> None:
    file = tmp_path / "trace.json"
    cluster.mlscope("export", imported.evaluation, "--format", "chrome", "-o", str(file))
    before, after = read_foreign(FILES / "kineto_cpu.json"), read_foreign(file)
    for name in ("level", "name", "start_ns", "duration_ns", "thread", "query", "kind"):
        assert after.spans[name].to_list() == before.spans[name].to_list()
    evaluation = cluster.mlscope("import", str(file), "--model", "small-net").strip()
    with cluster.client() as client:
        assert len(client.trace(evaluation).spans) == 72


@pytest.mark.parametrize("form", ["perfetto", "speedscope", "otlp", "parquet", "flamegraph"])
def test_every_format_is_written(
    cluster: Cluster, imported: EvaluationStatus, form: str, tmp_path: Path
) -> None:
    file = tmp_path / "out"
    told = cluster.mlscope("export", imported.evaluation, "--format", form, "-o", str(file))
    assert "72 spans of " in told
    assert file.stat().st_size > 500


def test_an_export_is_bounded_and_says_so(
    cluster: Cluster, imported: EvaluationStatus, tmp_path: Path
) -> None:
    file = tmp_path / "trace.json"
    asked = ("export", imported.evaluation, "--format", "chrome", "-o", str(file))
    assert "5 spans of " in cluster.mlscope(*asked, "--limit", "5")
    told = json.loads(file.read_text())
    assert (sum(each["ph"] == "X" for each in told["traceEvents"]), told["isCut"]) == (5, True)
    assert read_foreign(file).notes == ("the export lacks the last spans of its run",)
    assert cluster.mlscope(*asked, "--limit", "-1", code=2) == ""
    with cluster.client() as client:
        for limit, count, is_cut in ((0, 72, False), (72, 72, False), (71, 71, True)):
            trace = client.trace(imported.evaluation, limit=limit)
            assert (len(trace.spans), trace.is_cut) == (count, is_cut)


def test_the_flow_is_the_evaluations_facts_in_order(
    cluster: Cluster, imported: EvaluationStatus
) -> None:
    lines = cluster.mlscope("export", imported.evaluation, "--format", "flow").splitlines()
    names = [json.loads(line)["schema"] for line in lines]
    # It waits where a busy machine has let the agent's lease end.
    facts = [name for name in names if name != "evaluation.postponed"]
    assert facts[:2] == ["evaluation.requested", "evaluation.planned"]
    assert facts[-1] == "evaluation.analyzed"
    assert facts.index("run.completed") < facts.index("run.recorded")
