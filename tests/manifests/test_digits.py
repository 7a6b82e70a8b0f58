"""The digits: split before training, trained to the same answers again, right as often as said."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from mlscope.datasets.opening import open_dataset
from mlscope.manifests.reading import read_manifest_text
from schemas.manifest import DatasetManifest, ModelManifest
from tests.importing_later import imported_later

sklearn_datasets = imported_later("sklearn.datasets")

ROOT = Path(__file__).parents[2] / "manifests"
MODEL = ROOT / "models" / "digits"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Return what train.py defines."""
    return runpy.run_path(str(MODEL / "train.py"))


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    """Return the arrays of the shipped file."""
    with np.load(ROOT / "datasets" / "digits" / "digits.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def answers(pixels: Any) -> Any:
    """Return the shipped model's scores."""
    model = onnxruntime.InferenceSession(MODEL / "model.onnx", providers=["CPUExecutionProvider"])
    return model.run(["scores"], {"pixels": pixels})[0]


def test_the_shipped_digits_are_scikit_learns(
    script: dict[str, Any], shipped: dict[str, Any]
) -> None:
    again = script["split"](*sklearn_datasets.load_digits(return_X_y=True))
    assert again.keys() == shipped.keys()
    for name, array in again.items():
        assert np.array_equal(array, shipped[name])
        assert array.dtype == shipped[name].dtype


def test_no_digit_is_on_both_sides(shipped: dict[str, Any]) -> None:
    assert np.bincount(shipped["held_out_labels"]).tolist() == [45] * 10
    assert len(shipped["train"]) == 1797 - 450
    whole = np.concatenate([shipped["train"], shipped["held_out"]])
    every = {digit.tobytes() for digit in sklearn_datasets.load_digits().data.astype(np.float32)}
    assert {digit.tobytes() for digit in whole} == every


def test_training_again_gives_the_same_answers(
    script: dict[str, Any], shipped: dict[str, Any]
) -> None:
    weights = script["fitted"](shipped)
    scores = script["scores"](weights, shipped["held_out"])
    found = answers(shipped["held_out"])
    assert np.abs(found - scores).max() < 1e-3
    assert np.array_equal(found.argmax(axis=1), scores.argmax(axis=1))


def test_as_many_are_right_as_the_manifest_says() -> None:
    dataset = read_manifest_text((ROOT / "datasets" / "digits.yml").read_text(), "digits.yml")
    model = read_manifest_text((ROOT / "models" / "digits.yml").read_text(), "digits.yml")
    assert isinstance(dataset, DatasetManifest)
    assert isinstance(model, ModelManifest)
    assert dataset.source is not None
    source = dataset.source
    path = ROOT / "datasets" / "digits" / "digits.npz"
    held = open_dataset(source.reader, path, source.options)
    best = answers(np.stack(list(held))).argmax(axis=1)
    classes = [truth.classes[0] for truth in held.truths if truth]
    right = sum(int(each == wanted) for each, wanted in zip(best, classes, strict=True))
    assert len(held) == source.samples == 450
    assert right / len(held) == model.attributes["top1"] / 100
