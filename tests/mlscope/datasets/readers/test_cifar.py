"""CIFAR's binary files, and an answer for who has the pickled ones."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlscope.datasets.errors import BadField, FileBroken, LayoutMissing, LayoutUnsupported
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import CIFAR10_NAMES, cifar_in, written


@pytest.mark.parametrize("below", [".", "cifar-10-batches-bin"])
def test_pictures_labels_and_names(tmp_path: Path, below: str) -> None:
    rows = cifar_in(tmp_path / below)
    dataset = open_dataset("cifar10", tmp_path, {"gives": "array"}, scratch=tmp_path)
    for sample, row in zip(dataset, rows, strict=True):
        assert np.array_equal(sample.transpose(2, 0, 1).reshape(-1), row)
    truths = [truth for truth in dataset.truths if truth]
    assert [truth.classes for truth in truths] == [(3,), (8,), (8,), (0,)]
    assert (truths[0].labels, truths[1].labels) == (("cat",), ("ship",))
    assert truths[2].name.endswith("test_batch.bin:2")
    assert dataset.classes == CIFAR10_NAMES


def test_pictures_as_files(tmp_path: Path) -> None:
    rows = cifar_in(tmp_path)
    pixels = np.asarray(Image.open(io.BytesIO(open_dataset("cifar10", tmp_path)[2])))
    assert pixels[5, 7].tolist() == rows[2].reshape(3, 32, 32)[:, 5, 7].tolist()


def test_the_training_split_goes_over_its_files(tmp_path: Path) -> None:
    rows = cifar_in(tmp_path)
    for number in range(1, 6):
        batch = (tmp_path / "test_batch.bin").read_bytes()
        (tmp_path / f"data_batch_{number}.bin").write_bytes(batch)
    dataset = open_dataset("cifar10", tmp_path, {"split": "train", "gives": "chw"})
    assert len(dataset) == 20
    for number, sample in enumerate(dataset):
        assert np.array_equal(sample.reshape(-1), rows[number % 4])


@pytest.mark.parametrize("split", ["test", "train"])
@pytest.mark.parametrize("below", [".", "cifar-100-binary"])
@pytest.mark.parametrize(
    ("kind", "labels", "names"), [("fine", (19, 0), ("f19", "f0")), ("coarse", (1, 0), ("b", "a"))]
)
def test_fine_and_coarse_classes(
    tmp_path: Path,
    split: str,
    below: str,
    kind: str,
    labels: tuple[int, int],
    names: tuple[str, str],
) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (2, 3072), np.uint8)
    coarse_and_fine = np.array([[1, 19], [0, 0]], np.uint8)
    folder = tmp_path / below
    written(folder / f"{split}.bin", np.hstack([coarse_and_fine, pixels]).tobytes())
    written(folder / "fine_label_names.txt", "".join(f"f{n}\n" for n in range(20)))
    written(folder / "coarse_label_names.txt", "a\nb\n")
    options = {"labels": kind, "split": split, "gives": "chw"}
    dataset = open_dataset("cifar100", tmp_path, options)
    truths = [truth for truth in dataset.truths if truth]
    assert [truth.classes[0] for truth in truths] == list(labels)
    assert tuple(truth.labels[0] for truth in truths) == names
    assert np.array_equal(dataset[1].reshape(-1), pixels[1])


@pytest.mark.parametrize(
    ("reader", "file", "archive"),
    [
        ("cifar10", "batches.meta", "cifar-10-binary.tar.gz"),
        ("cifar10", "cifar-10-batches-py/batches.meta", "cifar-10-binary.tar.gz"),
        ("cifar100", "meta", "cifar-100-binary.tar.gz"),
        ("cifar100", "cifar-100-python/meta", "cifar-100-binary.tar.gz"),
    ],
)
def test_the_pickled_form_says_what_to_download(
    tmp_path: Path, reader: str, file: str, archive: str
) -> None:
    written(tmp_path / file, b"\x80\x04")
    with pytest.raises(LayoutUnsupported, match=rf"pickled .* not supported; download .*{archive}"):
        open_dataset(reader, tmp_path)


def test_a_label_without_a_name_is_named(tmp_path: Path) -> None:
    cifar_in(tmp_path)
    written(tmp_path / "test_batch.bin", bytes([10]) + bytes(3072))
    dataset = open_dataset("cifar10", tmp_path)
    with pytest.raises(
        BadField, match=r"test_batch\.bin: record 0: label is 10, expected .* 0 to 9"
    ):
        dataset.truths[0]


@pytest.mark.parametrize("length", [1, 100, 3072, 5000])
def test_a_file_that_is_cut(tmp_path: Path, length: int) -> None:
    cifar_in(tmp_path)
    body = (tmp_path / "test_batch.bin").read_bytes()
    (tmp_path / "test_batch.bin").write_bytes(body[:length])
    with pytest.raises(FileBroken, match=r"test_batch\.bin: has .* expected rows of 3073 bytes"):
        open_dataset("cifar10", tmp_path)


def test_a_file_without_rows_holds_no_samples(tmp_path: Path) -> None:
    cifar_in(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(b"")
    with pytest.raises(LayoutMissing, match="holds no samples"):
        open_dataset("cifar10", tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LayoutMissing, match=r"has no batches\.meta\.txt"):
        open_dataset("cifar10", tmp_path)
