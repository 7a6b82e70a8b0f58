"""Paths in a dataset's options lead nowhere but into the dataset's folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.errors import LayoutMissing, PathEscapes
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import coco_in, picture, squad_of, written


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


LINKED = (
    ("image_folder", "cat/a.jpg", picture()),
    ("files", "any/a.bin", b"x"),
    ("imagenet", "val/n01440764/a.JPEG", picture()),
    ("tfrecord", "a.tfrecord", b"x"),
    ("recordio", "a.rec", b"x"),
    ("csv", "a.csv", "a\n1\n"),
    ("npy", "a.npy", b"x"),
    ("squad", "dev.json", squad_of({})),
    ("mnist", "raw/t10k-images-idx3-ubyte", b"x"),
    ("cifar10", "cifar-10-batches-bin/batches.meta.txt", b"x"),
)


@pytest.mark.parametrize(("reader", "name", "body"), LINKED, ids=[each[0] for each in LINKED])
def test_a_file_that_is_a_link_out_is_not_read(
    tmp_path: Path, reader: str, name: str, body: bytes | str
) -> None:
    link = tmp_path / "open" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(written(tmp_path / "secret", body))
    options = {"features": ["a"]} if reader == "csv" else {}
    with pytest.raises(PathEscapes, match="leads out of the dataset's folder"):
        open_dataset(reader, tmp_path / "open", options)


@pytest.mark.parametrize(
    ("reader", "folder", "name"),
    [
        ("image_folder", "cat", "a.jpg"),
        ("imagenet", "val", "n01440764/a.JPEG"),
        ("mnist", "raw", "t10k-images-idx3-ubyte"),
        ("cifar10", "cifar-10-batches-bin", "batches.meta.txt"),
    ],
)
def test_a_folder_that_is_a_link_out_is_not_read(
    tmp_path: Path, reader: str, folder: str, name: str
) -> None:
    written(tmp_path / "secret" / name, picture())
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / folder).symlink_to(tmp_path / "secret")
    with pytest.raises(PathEscapes):
        open_dataset(reader, tmp_path / "open")


def test_a_link_inside_is_a_file_as_any_other(tmp_path: Path) -> None:
    written(tmp_path / "cat" / "a.jpg", b"cat")
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / "b.jpg").symlink_to(tmp_path / "cat" / "a.jpg")
    assert list(open_dataset("image_folder", tmp_path)) == [b"cat", b"cat"]


def test_a_folder_that_is_itself_a_link_is_read(tmp_path: Path) -> None:
    """Whoever named it meant what it leads to."""
    written(tmp_path / "real" / "cat" / "a.jpg", b"cat")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert list(open_dataset("image_folder", tmp_path / "link")) == [b"cat"]
