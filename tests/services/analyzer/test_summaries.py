"""Rows of the table `headline`: the figures of each load with its place, accuracy and size."""

from typing import Any

from schemas.manifest import Assets, FrameworkNeed, ModelManifest
from services.analyzer.analysis import analyze
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
