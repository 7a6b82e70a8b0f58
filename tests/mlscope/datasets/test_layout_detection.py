"""Layouts by what lies in them."""

from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.errors import LayoutUnknown
from mlscope.datasets.layout_detection import detect_reader
from tests.mlscope.datasets.layouts import written


@pytest.mark.parametrize(
    ("files", "reader", "options"),
    [
        (["batches.meta.txt", "test_batch.bin"], "cifar10", {}),
        (["cifar-10-batches-bin/batches.meta.txt"], "cifar10", {}),
        (["fine_label_names.txt", "test.bin"], "cifar100", {}),
        (["cifar-100-binary/fine_label_names.txt"], "cifar100", {}),
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
    assert detect_reader(tmp_path) == (reader, options)


@pytest.mark.parametrize(
    ("name", "reader"), [("a.NPY", "npy"), ("a.tfrec", "tfrecord"), ("a.jpg", "files")]
)
def test_files(tmp_path: Path, name: str, reader: str) -> None:
    assert detect_reader(written(tmp_path / name, "x")) == (reader, {})


@pytest.mark.parametrize("name", ["rows.csv", "notes.txt"])
def test_what_is_not_guessed_at(tmp_path: Path, name: str) -> None:
    with pytest.raises(LayoutUnknown, match=r"describe it in a manifest"):
        detect_reader(written(tmp_path / name, "x"))
    with pytest.raises(LayoutUnknown, match="neither pictures nor a known layout"):
        detect_reader(tmp_path)


@pytest.mark.parametrize("head", ['{"version": "v2.0", "data": [', '{\n  "data" : [{'])
def test_questions_are_told_by_how_they_begin(tmp_path: Path, head: str) -> None:
    assert detect_reader(written(tmp_path / "dev-v2.0.json", head)) == ("squad", {})
    with pytest.raises(LayoutUnknown):
        detect_reader(written(tmp_path / "mine.json", '{"kind": "dataset", "data": ['))
