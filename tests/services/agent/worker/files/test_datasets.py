"""Samples: files checked up front, tensors from a seed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.manifest import DatasetManifest, Sample, SampleFile, Synthetic, SyntheticTensor
from services.agent.errors import DatasetUnusable, WrongChecksum
from services.agent.predictors import TensorPlace
from services.agent.worker.files.datasets import load_samples, synthetic_samples
from services.agent.worker.files.model_files import AssetFolder
from tests.services.agent.builders import MANIFESTS, dataset_named

UNIFORM: dict[str, Any] = {"distribution": "uniform"}


def folder() -> AssetFolder:
    return AssetFolder(MANIFESTS, "datasets")


def test_photos_are_loaded_and_checked() -> None:
    used = folder()
    samples = load_samples(dataset_named("photos"), used)
    assert len(samples) == len(used.checksums) == 9
    assert samples[0].startswith(b"\xff\xd8")


def test_a_photo_of_another_content_is_refused() -> None:
    photos = dataset_named("photos")
    changed = photos.samples[0].model_copy(update={"sha256": "0" * 64})
    with pytest.raises(WrongChecksum):
        load_samples(photos.model_copy(update={"samples": (changed,)}), folder())


def test_the_same_seed_makes_the_same_tensors() -> None:
    first = synthetic_samples("d", Synthetic(shape=(3, 2), seed=5, samples=4))
    again = synthetic_samples("d", Synthetic(shape=(3, 2), seed=5, samples=4))
    other = synthetic_samples("d", Synthetic(shape=(3, 2), seed=6, samples=4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.shape == (4, 3, 2)
    assert first.dtype == np.float32


def test_distributions_are_what_they_say() -> None:
    uniform = synthetic_samples("d", Synthetic(shape=(500,), distribution="uniform"))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert not synthetic_samples("d", Synthetic(shape=(9,), distribution="zeros")).any()
    whole = synthetic_samples("d", Synthetic(shape=(500,), element_type="uint8"))
    assert whole.dtype == np.uint8
    assert whole.max() > 64


@pytest.mark.parametrize("kind", ["float99", "object", "str"])
def test_an_element_type_is_a_number(kind: str) -> None:
    with pytest.raises(DatasetUnusable, match="element type"):
        synthetic_samples("d", Synthetic(shape=(1,), element_type=kind))


def test_what_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    huge = Synthetic(shape=(1 << 20,), samples=1_000_000)
    with pytest.raises(DatasetUnusable, match="is more than"):
        load_samples(DatasetManifest(name="d", synthetic=huge), AssetFolder(tmp_path, "datasets"))


def test_no_samples_is_no_dataset() -> None:
    with pytest.raises(DatasetUnusable, match="holds no samples"):
        load_samples(DatasetManifest(name="d"), folder())


PLACES = (
    TensorPlace("ids", (3,), "int64"),
    TensorPlace("mask", (2, 2), "bool"),
    TensorPlace("x", (5,), "float32"),
)


def test_what_a_dataset_does_not_say_the_model_does(tmp_path: Path) -> None:
    dataset = DatasetManifest(
        name="d",
        synthetic=Synthetic(
            samples=50,
            inputs={"ids": SyntheticTensor(shape=(4,), element_type="int32", high=9, **UNIFORM)},
        ),
    )
    samples = load_samples(dataset, AssetFolder(tmp_path, "datasets"), PLACES)
    made = [samples[index] for index in range(len(samples))]
    shapes = {name: (each.shape, str(each.dtype)) for name, each in made[49].items()}
    assert shapes == {"ids": ((4,), "int32"), "mask": ((2, 2), "bool"), "x": ((5,), "float32")}
    ids = np.array([each["ids"] for each in made])
    assert (ids.min(), ids.max()) == (0, 8)
    assert np.array([each["mask"] for each in made]).mean() not in (0, 1)


@given(st.integers(1, 2**20), st.integers(0, 2**32 - 1), st.integers(-100, 100))
def test_whole_numbers_stay_below_their_bound(span: int, seed: int, low: int) -> None:
    said = {"element_type": "int64", "low": low, "high": low + span, **UNIFORM}
    made = synthetic_samples("d", Synthetic(shape=(100,), seed=seed, samples=1, **said))
    assert low <= made.min()
    assert made.max() < low + span


def test_an_input_that_the_model_has_not_is_named(tmp_path: Path) -> None:
    dataset = DatasetManifest(name="d", synthetic=Synthetic(inputs={"y": SyntheticTensor()}))
    with pytest.raises(DatasetUnusable, match="has input y; the model's are ids, mask, x"):
        load_samples(dataset, AssetFolder(tmp_path, "datasets"), PLACES)


def test_a_sample_may_have_a_file_for_each_input() -> None:
    (photo, *_) = dataset_named("photos").samples
    file = SampleFile(path=photo.path, sha256=photo.sha256)
    pair = DatasetManifest(
        name="d", samples=(Sample.model_validate({"inputs": {"left": file, "right": file}}),)
    )
    (sample,) = load_samples(pair, folder())
    assert sample["left"] == sample["right"]
    assert sample["left"].startswith(b"\xff\xd8")
