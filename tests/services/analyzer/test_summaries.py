"""Rows of the table `headline`: the figures of each load with its place, accuracy and size."""

from collections.abc import Sequence
from typing import Any

import pytest

from schemas.analysis import Table
from schemas.manifest import Assets, FrameworkNeed, ModelManifest
from services.analyzer.analysis import analyze
from services.analyzer.building.table import estimate_columns, int_column, text_column
from services.analyzer.frames.evaluation import Run
from services.analyzer.summaries import summaries_of
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.throughput import ANALYSIS as THROUGHPUT
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import query


def a_model(**attributes: Any) -> ModelManifest:
    """Return a manifest with published figures."""
    return ModelManifest(
        name="m",
        version="1.0.0",
        task="image classification",
        framework=FrameworkNeed(name="onnxruntime"),
        inputs=(),
        outputs=(),
        model=Assets(graph_path="m.onnx"),
        attributes=attributes,
    )


def test_a_load_has_its_place_and_what_the_manifest_quotes() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    conditions = {"load_ns": 7, "first_run_ns": 5, "accelerator": "H200"}
    run = {"run": "r0", "agent": "a1", "model": "m", "queries": queries, "conditions": conditions}
    frames = frames_in({"runs": [run]})
    (row,) = analyze(frames, a_model(top1=76.2, parameters=10, training_dataset="I")).summaries
    assert (row["task"], row["agent"], row["latency_ns"]) == ("image classification", "a1", 9.0)
    assert (row["published_metric"], row["published_accuracy"]) == ("top-1", 0.762)
    assert (row["size_bytes"], row["load_ns"], row["first_run_ns"]) == (40, 7, 5)
    assert (row["accuracy"], row["judged"], row["accelerator"]) == (None, None, "H200")


def test_without_a_plan_nothing_is_quoted() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    (row,) = analyze(frames_in({"runs": [{"run": "r0", "queries": queries}]})).summaries
    assert (row["task"], row["published_accuracy"], row["size_bytes"]) == ("", None, None)


def test_every_batch_size_has_a_row_of_its_plainest_run() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    told = [
        {"run": f"r{size}-{level}", "batch_size": size, "level": level, "queries": queries}
        for level in (2, 1)
        for size in (1, 4)
    ]
    rows = analyze(frames_in({"runs": told})).summaries
    assert [(row["batch_size"], row["run"]) for row in rows] == [(1, "r1-1"), (4, "r4-1")]


def loads_of(*runs: dict[str, Any]) -> tuple[Sequence[Run], list[Table]]:
    """Return described runs with their tables of latency and throughput."""
    frames = frames_in({"runs": list(runs)})
    return frames.measured, [LATENCY.compute(frames), THROUGHPUT.compute(frames)]


def a_run(run: str = "r0", **more: Any) -> dict[str, Any]:
    """Return a run of twenty queries of 9 ns, one every 10 ns."""
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    return {"run": run, "agent": "a1", "queries": queries} | more


def accuracies(*rows: tuple[str, int, str, float | None]) -> Table:
    """Return a table of accuracy: agent, batch size, metric and value, known to 0.01."""
    columns = (
        text_column("agent", "."),
        int_column("batch_size", "."),
        text_column("metric", "."),
        int_column("judged", "."),
        *estimate_columns("value", ".", "1"),
    )
    cells = tuple(
        (agent, size, metric, 50, value, value and value - 0.01, value and value + 0.01)
        for agent, size, metric, value in rows
    )
    return Table(name="accuracy", title="", columns=columns, rows=cells)


def test_the_first_metric_of_an_agent_and_batch_size_is_its_accuracy() -> None:
    runs, tables = loads_of(a_run(), a_run("r1", batch_size=4), a_run("r2", agent="a2"))
    table = accuracies(
        ("a1", 1, "untold", None),
        ("a1", 1, "top-1", 0.7),
        ("a1", 1, "top-5", 0.9),
        ("a1", 4, "top-1", 0.6),
    )
    rows = {row["run"]: row for row in summaries_of(runs, [*tables, table], None)}
    ends = [rows["r0"][f"accuracy{end}"] for end in ("", "_low", "_high")]
    assert ends == pytest.approx([0.7, 0.69, 0.71])
    assert (rows["r0"]["metric"], rows["r0"]["judged"]) == ("top-1", 50)
    assert (rows["r1"]["accuracy"], rows["r2"]["accuracy"], rows["r2"]["metric"]) == (0.6, None, "")


def test_a_size_that_was_measured_goes_before_the_manifests() -> None:
    opened = a_run(conditions={"model_size_bytes": 99})
    model = a_model(parameters=10)
    (row,) = summaries_of(*loads_of(opened), model)
    assert row["size_bytes"] == 99
    (row,) = summaries_of(*loads_of(a_run()), model)
    assert row["size_bytes"] == 40


@pytest.mark.parametrize(("quoted", "share"), [(76.2, 0.762), (0.762, 0.762), (1, 1), (100, 1)])
def test_quoted_percent_become_shares_and_shares_stay(quoted: float, share: float) -> None:
    (row,) = summaries_of(*loads_of(a_run()), a_model(top1=quoted))
    assert row["published_accuracy"] == pytest.approx(share)


def test_figures_that_nobody_knows_are_empty() -> None:
    conditions = {"load_ns": 0, "precision": None}
    (row,) = summaries_of(*loads_of(a_run(conditions=conditions)), None)
    assert (row["load_ns"], row["first_run_ns"], row["precision"]) == (None, None, "")
    assert (row["latency_ns"], row["latency_ns_low"]) == (9.0, 9.0)
    (row,) = summaries_of(loads_of(a_run())[0], loads_of(a_run())[1][:1], None)
    assert (row["samples_per_s"], row["samples_per_s_high"]) == (None, None)
