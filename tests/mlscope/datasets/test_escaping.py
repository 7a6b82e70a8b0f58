"""Paths in a dataset's options lead nowhere but into the dataset's folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.errors import LayoutMissing, PathEscapes
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import coco_in, picture, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a COCO folder beside secrets, with links to them."""
    inner = tmp_path / "open"
    coco_in(inner)
    coco_in(tmp_path)
    written(inner / "cat" / "a.jpg", picture())
    written(tmp_path / "secret.txt", "cat/a.jpg,0\n")
    (inner / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inner / "folder").symlink_to(tmp_path)
    return inner


SECRET = ("/{top}/secret.txt", "../secret.txt", "link.txt", "folder/secret.txt")


@pytest.mark.parametrize("path", SECRET)
@pytest.mark.parametrize(
    ("reader", "option"),
    [
        ("npy", "class_names"),
        ("image_folder", "class_names"),
        ("image_folder", "labels"),
        ("coco", "annotations"),
    ],
)
def test_a_file_in_the_options_stays_inside(
    folder: Path, reader: str, option: str, path: str
) -> None:
    options = {option: path.format(top=str(folder.parent).strip("/"))}
    with pytest.raises(PathEscapes, match="leads out of the dataset's folder"):
        open_dataset(reader, folder, options)


@pytest.mark.parametrize("split", ["/", "..", "folder", "{top}", "../val2017"])
def test_a_split_stays_inside(folder: Path, split: str) -> None:
    file = "annotations/instances_val2017.json"
    options: Mapping[str, Any] = {
        "split": split.format(top=folder.parent),
        "annotations": file,
    }
    with pytest.raises(PathEscapes):
        open_dataset("coco", folder, options)


def test_an_absolute_path_is_refused_even_to_inside(folder: Path) -> None:
    with pytest.raises(PathEscapes):
        open_dataset("coco", folder, {"annotations": str(folder / "annotations/x.json")})


def test_a_path_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(PathEscapes):
        open_dataset("coco", folder, {"annotations": "a\0b"})


def test_imagenet_reads_nothing_beside_its_folder(tmp_path: Path) -> None:
    inner = tmp_path / "open"
    written(inner / "val" / "a.JPEG", picture())
    written(tmp_path / "val.txt", "a.JPEG 3\n")
    with pytest.raises(LayoutMissing, match=r"val\.txt"):
        open_dataset("imagenet", inner)


@pytest.mark.parametrize("name", ["val.txt", "synset_words.txt"])
def test_imagenet_follows_no_link_out(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "open"
    written(inner / "val" / "a.JPEG", picture())
    written(tmp_path / "secret", "a.JPEG 3\n")
    (inner / name).symlink_to(tmp_path / "secret")
    with pytest.raises(PathEscapes):
        open_dataset("imagenet", inner)
