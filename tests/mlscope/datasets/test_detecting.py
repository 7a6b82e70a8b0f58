"""Layouts by what lies in them."""

from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.detecting import reader_for
from mlscope.datasets.errors import LayoutUnknown
from tests.mlscope.datasets.layouts import written


@pytest.mark.parametrize(
    ("files", "reader", "options"),
    [
        (["batches.meta", "test_batch"], "cifar10", {}),
        (["cifar-100-python/meta"], "cifar100", {}),
        (["annotations/instances_val2014.json", "val2014/a.jpg"], "coco", {"split": "val2014"}),
        (["train-images-idx3-ubyte.gz"], "mnist", {}),
        (["MNIST/raw/t10k-images-idx3-ubyte"], "mnist", {}),
        (["val-00000-of-00002.tfrecord"], "tfrecord", {}),
        (["validation-00000-of-00128", "validation-00001-of-00128"], "tfrecord", {}),
        (["val.rec", "val.idx"], "recordio", {}),
        (["dev-v2.0.json", "train-v2.0.json"], "squad", {}),
        (["val/n01440764/a.JPEG"], "imagenet", {}),
        (["val/ILSVRC2012_val_00000001.JPEG", "val.txt"], "imagenet", {}),
        (["cat/a.jpg", "dog/b.jpg"], "image_folder", {}),
        (["images/a.jpg", "masks/a.png"], "paired_folders", {}),
        (["images/a.jpg", "labels/a.txt"], "image_folder", {}),
        (["a.jpg", "labels.csv"], "image_folder", {}),
        (["a.jpg", "b.webp"], "image_folder", {"labelled": False}),
    ],
)
def test_folders(tmp_path: Path, files: list[str], reader: str, options: dict[str, Any]) -> None:
    for name in files:
        written(tmp_path / name, "x")
    assert reader_for(tmp_path) == (reader, options)


@pytest.mark.parametrize(
    ("name", "reader"), [("a.NPY", "npy"), ("a.tfrec", "tfrecord"), ("a.jpg", "files")]
)
def test_files(tmp_path: Path, name: str, reader: str) -> None:
    assert reader_for(written(tmp_path / name, "x")) == (reader, {})


@pytest.mark.parametrize("name", ["rows.csv", "notes.txt"])
def test_what_is_not_guessed_at(tmp_path: Path, name: str) -> None:
    with pytest.raises(LayoutUnknown, match=r"describe it in a manifest"):
        reader_for(written(tmp_path / name, "x"))
    with pytest.raises(LayoutUnknown, match="neither pictures nor a known layout"):
        reader_for(tmp_path)


@pytest.mark.parametrize("head", ['{"version": "v2.0", "data": [', '{\n  "data" : [{'])
def test_questions_are_told_by_how_they_begin(tmp_path: Path, head: str) -> None:
    assert reader_for(written(tmp_path / "dev-v2.0.json", head)) == ("squad", {})
    with pytest.raises(LayoutUnknown):
        reader_for(written(tmp_path / "mine.json", '{"kind": "dataset", "data": ['))
