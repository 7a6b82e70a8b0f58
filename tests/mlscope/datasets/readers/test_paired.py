"""Pictures and their targets, paired by name."""

from pathlib import Path

import pytest

from mlscope.datasets.errors import LayoutMissing, PathEscapes
from mlscope.datasets.layout_detection import detect_reader
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import picture, written


@pytest.mark.parametrize("beside", ["targets", "labels", "masks", "annotations"])
def test_pictures_are_paired_with_targets_of_their_name(tmp_path: Path, beside: str) -> None:
    for seed, name in enumerate(("b", "a", "deep/a")):
        written(tmp_path / "images" / f"{name}.jpg", picture(seed))
        written(tmp_path / beside / f"{name}.png", picture(10 + seed, "PNG"))
    written(tmp_path / "images" / "alone.jpg", picture(7))
    with_reader, options = detect_reader(tmp_path)
    found = open_dataset(with_reader, tmp_path, options)
    assert [truth and truth.name for truth in found.truths] == [
        "images/a.jpg",
        "images/b.jpg",
        "images/deep/a.jpg",
    ]
    assert list(found) == [picture(1), picture(0), picture(2)]
    targets = [truth and truth.picture for truth in found.truths]
    assert targets == [picture(11, "PNG"), picture(10, "PNG"), picture(12, "PNG")]


def test_folders_of_other_names_are_told(tmp_path: Path) -> None:
    for folder, seed in (("JPEGImages", 0), ("SegmentationClass", 1), ("targets", 2)):
        written(tmp_path / folder / "a.jpg", picture(seed))
    told = {"images": "JPEGImages", "targets": "SegmentationClass"}
    found = open_dataset("paired_folders", tmp_path, told)
    (truth,) = found.truths
    assert truth is not None
    assert (found[0], truth.picture) == (picture(0), picture(1))


def test_without_one_pair_the_folder_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "images" / "a.jpg", picture())
    with pytest.raises(LayoutMissing, match="has no targets or labels or masks or annotations"):
        open_dataset("paired_folders", tmp_path)
    written(tmp_path / "targets" / "b.png", picture())
    with pytest.raises(LayoutMissing, match="no picture in images has a target"):
        open_dataset("paired_folders", tmp_path)


def test_a_target_is_a_file_of_the_dataset(tmp_path: Path) -> None:
    written(tmp_path / "set" / "images" / "a.jpg", picture())
    target = tmp_path / "set" / "targets" / "a.png"
    target.parent.mkdir()
    target.symlink_to(written(tmp_path / "secret.png", picture()))
    with pytest.raises(PathEscapes):
        open_dataset("paired_folders", tmp_path / "set")
