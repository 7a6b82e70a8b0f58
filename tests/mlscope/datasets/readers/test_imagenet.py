"""ImageNet's validation pictures, in each layout that people have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat  # type: ignore[import-untyped,unused-ignore]

from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import BadField, DatasetError, LayoutMissing
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import written

SYNSETS = ["n01440764", "n01443537", "n02099712"]
WORDS = f"{SYNSETS[0]} tench, Tinca\n{SYNSETS[1]} goldfish\n{SYNSETS[2]} Labrador\n"


def flat(root: Path) -> None:
    """Write three pictures."""
    for number in (1, 2, 3):
        written(root / f"ILSVRC2012_val_{number:08}.JPEG", f"picture {number}")


def classes(dataset: Dataset) -> list[int]:
    """Return the class of each sample."""
    return [truth.classes[0] for truth in dataset.truths if truth]


def test_synset_folders_of_some_classes_have_their_place_among_all(tmp_path: Path) -> None:
    written(tmp_path / "synset_words.txt", WORDS)
    written(tmp_path / "val" / SYNSETS[2] / "b.JPEG", "dog")
    written(tmp_path / "val" / SYNSETS[0] / "a.JPEG", "fish")
    dataset = open_dataset("imagenet", tmp_path)
    assert (list(dataset), classes(dataset)) == ([b"fish", b"dog"], [0, 2])
    truth = dataset.truths[0]
    assert truth is not None
    assert truth.labels == ("tench",)
    assert dataset.classes == ("tench", "goldfish", "Labrador")


def test_all_thousand_folders_need_no_list(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / "val" / f"n{number:08}").mkdir(parents=True)
    written(tmp_path / "val" / "n00000321" / "a.JPEG", "x")
    dataset = open_dataset("imagenet", tmp_path)
    assert classes(dataset) == [321]


def test_fewer_folders_without_a_list_are_not_guessed_at(tmp_path: Path) -> None:
    written(tmp_path / "val" / SYNSETS[0] / "a.JPEG", "x")
    with pytest.raises(LayoutMissing, match="has 1 of 1000 synset folders"):
        open_dataset("imagenet", tmp_path)


@pytest.mark.parametrize("below", ["val", "."])
def test_flat_with_val_txt(tmp_path: Path, below: str) -> None:
    flat(tmp_path / below)
    lines = [f"ILSVRC2012_val_{number:08}.JPEG {number * 7}" for number in (2, 1, 3)]
    written(tmp_path / "val.txt", "\n".join(lines))
    dataset = open_dataset("imagenet", tmp_path)
    assert (dataset[0], classes(dataset)) == (b"picture 2", [14, 7, 21])


def test_a_class_that_is_none_of_the_thousand(tmp_path: Path) -> None:
    flat(tmp_path / "val")
    written(tmp_path / "val.txt", "ILSVRC2012_val_00000001.JPEG 1000")
    with pytest.raises(BadField, match="label is 1000, expected a class, 0 to 999"):
        open_dataset("imagenet", tmp_path)


def meta(path: Path) -> None:
    """Write the kit's table: its numbers are not in the synsets' order; 1001 is a group."""
    rows = [(1, SYNSETS[2]), (2, SYNSETS[0]), (3, SYNSETS[1]), (1001, "n00001740")]
    kinds: Any = [("ILSVRC2012_ID", object), ("WNID", object)]
    table = np.array([(number, name) for number, name in rows], kinds).reshape(-1, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"synsets": table})


@pytest.mark.parametrize("kit", ["data", "ILSVRC2012_devkit_t12/data"])
@pytest.mark.parametrize("table", ["meta.mat", "map_clsloc.txt"])
def test_flat_with_the_development_kit(tmp_path: Path, kit: str, table: str) -> None:
    flat(tmp_path / "val")
    if table == "meta.mat":
        meta(tmp_path / kit / table)
    else:
        lines = [f"{SYNSETS[2]} 1 dog", f"{SYNSETS[0]} 2 tench", f"{SYNSETS[1]} 3 goldfish"]
        written(tmp_path / kit / table, "\n".join(lines))
    written(tmp_path / kit / "ILSVRC2012_validation_ground_truth.txt", "3\n1\n2\n")
    dataset = open_dataset("imagenet", tmp_path)
    assert (dataset[0], classes(dataset)) == (b"picture 1", [1, 2, 0])


@pytest.mark.parametrize(
    ("truths", "words"),
    [
        ("1\n2\n", "has 2 lines for 3 pictures"),
        ("1\n2\n9\n", "record line 3: class is '9', expected 1 to 3"),
        ("1\n2\nx\n", "class is 'x', expected an integer"),
    ],
)
def test_a_kit_that_does_not_fit(tmp_path: Path, truths: str, words: str) -> None:
    flat(tmp_path / "val")
    meta(tmp_path / "data" / "meta.mat")
    written(tmp_path / "data" / "ILSVRC2012_validation_ground_truth.txt", truths)
    with pytest.raises(DatasetError, match=words):
        open_dataset("imagenet", tmp_path)


@pytest.mark.parametrize("name", ["meta.mat", "map_clsloc.txt"])
def test_a_table_that_is_none(tmp_path: Path, name: str) -> None:
    flat(tmp_path / "val")
    written(tmp_path / "data" / name, "no table at all, but text of some length " * 9)
    written(tmp_path / "data" / "ILSVRC2012_validation_ground_truth.txt", "1\n2\n3\n")
    with pytest.raises(DatasetError, match=name):
        open_dataset("imagenet", tmp_path)


def test_nothing_that_says_classes(tmp_path: Path) -> None:
    flat(tmp_path / "val")
    with pytest.raises(LayoutMissing, match=r"has neither synset folders.*val\.txt nor ILSVRC"):
        open_dataset("imagenet", tmp_path)
    with pytest.raises(LayoutMissing, match="has no pictures"):
        open_dataset("imagenet", written(tmp_path / "x" / "y", "").parent)
