"""Figures of a model: what its attributes say, and nothing that nobody said."""

from typing import Any

import pytest

from mlscope.manifests.figures import accuracy_text, figures_of
from schemas.manifest import ModelManifest


def a_model(attributes: dict[str, Any], **assets: Any) -> ModelManifest:
    told = {"name": "m", "version": "1", "framework": {"name": "f"}, "inputs": (), "outputs": ()}
    return ModelManifest.model_validate(told | {"attributes": attributes, "model": assets})


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"top5": 92.1, "top1": 74.8, "training_dataset": "D"}, (74.8, "top-1", "D")),
        ({"acc@5 on A": 90.0, "acc@1 on A": 70}, (70.0, "top-1", "A")),
        ({"box_map on COCO": 37.0}, (37.0, "box mAP", "COCO")),
        ({"parameters": 5, "gflops": 1.0}, (None, "", "")),
    ],
)
def test_the_first_accuracy_counts(attributes: dict[str, Any], told: tuple[Any, ...]) -> None:
    found = figures_of(a_model(attributes))
    assert (found.accuracy, found.metric, found.measured_on) == told


@pytest.mark.parametrize(
    ("accuracy", "metric", "text"),
    [
        (74.83, "top-1", "74.83%"),
        (37, "box mAP", "37%"),
        (3.067, "end-point error", "3.067 px"),
        (0.8, "end-point error", "0.8 px"),
        (74.83, "wer", "74.83"),
        (0.75, "top-1", "0.75"),
    ],
)
def test_an_accuracy_has_the_unit_of_its_metric(accuracy: float, metric: str, text: str) -> None:
    assert accuracy_text(accuracy, metric) == text


def test_without_weights_there_is_no_accuracy() -> None:
    assert figures_of(a_model({"top1": 74.8}, builder="b.c", weights="random")).accuracy is None


def test_a_size_is_stated_or_guessed_or_unknown() -> None:
    stated = figures_of(a_model({"weights_megabytes": 2.0, "parameters": 7}))
    assert (stated.size_bytes, stated.is_size_guessed) == (2 << 20, False)
    guessed = figures_of(a_model({"parameters": 7}))
    assert (guessed.size_bytes, guessed.is_size_guessed) == (28, True)
    assert figures_of(a_model({"parameters": "many"})).size_bytes is None
