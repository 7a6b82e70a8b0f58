"""CIFAR's pickles: read as data, whatever they name."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlscope.datasets.errors import DatasetError, FileBroken, LayoutMissing
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import cifar_in, written


@pytest.mark.parametrize("protocol", [0, 2, 3, 4])
@pytest.mark.parametrize("below", [".", "cifar-10-batches-py"])
def test_pictures_labels_and_names(tmp_path: Path, protocol: int, below: str) -> None:
    rows = cifar_in(tmp_path / below, protocol)
    dataset = open_dataset("cifar10", tmp_path, {"gives": "array"}, scratch=tmp_path)
    for sample, row in zip(dataset, rows, strict=True):
        assert np.array_equal(sample.transpose(2, 0, 1).reshape(-1), row)
    found = [truth for truth in dataset.truths if truth]
    assert [truth.classes for truth in found] == [(3,), (8,), (8,), (0,)]
    assert (found[0].name, found[0].labels) == ("cat.png", ("cat",))


def test_pictures_as_files(tmp_path: Path) -> None:
    rows = cifar_in(tmp_path)
    pixels = np.asarray(Image.open(io.BytesIO(open_dataset("cifar10", tmp_path)[2])))
    assert pixels[5, 7].tolist() == rows[2].reshape(3, 32, 32)[:, 5, 7].tolist()


def test_the_training_split_goes_over_its_files(tmp_path: Path) -> None:
    rows = cifar_in(tmp_path)
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}").write_bytes((tmp_path / "test_batch").read_bytes())
    dataset = open_dataset("cifar10", tmp_path, {"split": "train", "gives": "chw"})
    assert len(dataset) == 20
    for number, sample in enumerate(dataset):
        assert np.array_equal(sample.reshape(-1), rows[number % 4])


@pytest.mark.parametrize(("kind", "labels"), [("fine", (19, 0)), ("coarse", (1, 0))])
def test_fine_and_coarse_classes(tmp_path: Path, kind: str, labels: tuple[int, int]) -> None:
    batch: dict[bytes, Any] = {b"data": np.zeros((2, 3072), np.uint8)}
    batch |= {b"fine_labels": [19, 0], b"coarse_labels": [1, 0]}
    meta = {
        b"fine_label_names": [b"f%d" % n for n in range(20)],
        b"coarse_label_names": [b"a", b"b"],
    }
    written(tmp_path / "test", pickle.dumps(batch, 2))
    written(tmp_path / "meta", pickle.dumps(meta, 2))
    dataset = open_dataset("cifar100", tmp_path, {"labels": kind})
    assert [truth.classes[0] for truth in dataset.truths if truth] == list(labels)


class Harm:
    """What a hostile pickle does when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_pickle_that_would_run_something_does_not(tmp_path: Path) -> None:
    cifar_in(tmp_path)
    touched = tmp_path / "touched"
    written(tmp_path / "test_batch", pickle.dumps({b"data": Harm(touched)}))
    with pytest.raises(FileBroken, match=r"test_batch: no pickle of plain data: names .*not data"):
        open_dataset("cifar10", tmp_path)
    assert not touched.exists()


ROWS = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({b"data": ROWS, b"labels": [1]}, "has 1 labels for 2 pictures"),
        ({b"data": ROWS[:, :5], b"labels": [1, 2]}, r"data is \(2, 5\), expected rows of 3072"),
        ({b"data": ROWS.astype(np.float32), b"labels": [1, 2]}, "expected an array of uint8"),
        ({b"data": ROWS, b"labels": [1, "x"]}, "labels is .*expected a list of whole numbers"),
        ({b"labels": [1]}, "data is 'NoneType'"),
        ([1, 2], "holds list, expected a map"),
        ({b"data": np.array([{}], object), b"labels": [1]}, "an array of objects"),
    ],
)
def test_what_is_no_batch(tmp_path: Path, batch: Any, words: str) -> None:
    cifar_in(tmp_path)
    written(tmp_path / "test_batch", pickle.dumps(batch, 2))
    with pytest.raises(DatasetError, match=words):
        open_dataset("cifar10", tmp_path)


@pytest.mark.parametrize("length", [0, 1, 100, 5000])
def test_a_pickle_that_is_cut(tmp_path: Path, length: int) -> None:
    cifar_in(tmp_path)
    body = (tmp_path / "test_batch").read_bytes()
    (tmp_path / "test_batch").write_bytes(body[:length])
    with pytest.raises(FileBroken, match="test_batch: no pickle of plain data"):
        open_dataset("cifar10", tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LayoutMissing, match=r"has no batches\.meta"):
        open_dataset("cifar10", tmp_path)
