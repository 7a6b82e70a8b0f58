"""Samples: files checked up front, tensors from a seed."""

from pathlib import Path

import numpy as np
import pytest

from schemas.manifest import DatasetManifest, Synthetic
from services.agent.assets import AssetFolder
from services.agent.datasets import load_samples, synthetic_samples
from services.agent.errors import ChecksumMismatch, DatasetUnusable
from tests.services.agent.builders import MANIFESTS, dataset_named


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
    with pytest.raises(ChecksumMismatch):
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
