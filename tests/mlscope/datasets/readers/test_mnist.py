"""MNIST's IDX files, packed and plain."""

import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlscope.datasets.errors import BadField, FileBroken, LayoutMissing
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import idx_of, mnist_in, written

LABELS = "t10k-labels-idx1-ubyte.gz"
PICTURES = "t10k-images-idx3-ubyte.gz"


@pytest.mark.parametrize("below", [".", "MNIST/raw"])
def test_pictures_and_labels(tmp_path: Path, below: str) -> None:
    pictures = mnist_in(tmp_path / below)
    dataset = open_dataset("mnist", tmp_path, scratch=tmp_path)
    for sample, expected in zip(dataset, pictures, strict=True):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(sample))), expected)
    assert [truth.classes for truth in dataset.truths if truth] == [(n,) for n in range(5)]


def test_arrays_of_plain_files(tmp_path: Path) -> None:
    pictures = mnist_in(tmp_path)
    for name in (LABELS, PICTURES):
        plain = gzip.decompress((tmp_path / name).read_bytes())
        written(tmp_path / "plain" / name.removesuffix(".gz"), plain)
    first = open_dataset("mnist", tmp_path / "plain", {"gives": "array"})[0]
    assert (first.shape, first.dtype) == ((28, 28, 1), np.uint8)
    assert np.array_equal(first[:, :, 0], pictures[0])
    assert open_dataset("mnist", tmp_path, {"gives": "chw"})[1].shape == (1, 28, 28)


def head(kind: int, *shape: int) -> bytes:
    """Return an IDX head."""
    return bytes((0, 0, kind, len(shape))) + struct.pack(f">{len(shape)}I", *shape)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (head(8, 5) + bytes(4), "has 4 bytes; its header declares 5"),
        (head(8, 5) + bytes(6), "has more bytes; its header declares 5"),
        (head(8, 4) + bytes(4), "has 4 labels for 5 pictures"),
        (head(13, 5) + bytes(20), "begins with 00000d01, expected an IDX head"),
        (b"\0\0\x08", "is cut short in its head"),
        (head(8, 1 << 31) + bytes(5), "its header declares"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, body: bytes, words: str) -> None:
    mnist_in(tmp_path)
    written(tmp_path / LABELS, gzip.compress(body))
    with pytest.raises(FileBroken, match=f"{LABELS}.*{words}"):
        open_dataset("mnist", tmp_path)


def test_a_packed_file_that_is_cut(tmp_path: Path) -> None:
    mnist_in(tmp_path)
    (tmp_path / PICTURES).write_bytes((tmp_path / PICTURES).read_bytes()[:-40])
    with pytest.raises(FileBroken, match=f"{PICTURES}: can't be unpacked"):
        open_dataset("mnist", tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    mnist_in(tmp_path)
    (tmp_path / LABELS).unlink()
    with pytest.raises(LayoutMissing, match="has no t10k-labels-idx1-ubyte"):
        open_dataset("mnist", tmp_path)


def test_a_label_beyond_the_classes(tmp_path: Path) -> None:
    mnist_in(tmp_path)
    written(tmp_path / LABELS, gzip.compress(idx_of(np.array([1, 2, 3, 4, 11], np.uint8))))
    dataset = open_dataset("mnist", tmp_path)
    with pytest.raises(BadField, match="record 4: label is 11, expected a class, 0 to 9"):
        dataset.truths[4]
