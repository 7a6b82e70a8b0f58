"""Datasets on disk, made as their formats say, for tests of what reads them."""

import gzip
import io
import json
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mlscope.datasets.readers.recordio import MAGIC
from mlscope.datasets.readers.tfrecord import masked_crc32c

_TRIANGLE = {"bbox": [1, 2, 3.5, 4], "area": 13.0, "segmentation": [[1, 2, 4, 2, 4, 6]]}
_CROWD = {
    "bbox": [0, 0, 2, 2],
    "area": 4.0,
    "segmentation": {"counts": [0, 4, 104], "size": [9, 12]},
}


def picture(seed: int = 0, form: str = "JPEG", size: tuple[int, int] = (12, 9)) -> bytes:
    """Return a small picture's file."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    body = io.BytesIO()
    Image.fromarray(pixels).save(body, form)
    return body.getvalue()


def written(path: Path, body: bytes | str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    return path


def recordio_of(records: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """Return a RecordIO file and where its records begin, written as dmlc-core's writer does."""
    body, starts = bytearray(), []
    magic = struct.pack("<I", MAGIC)
    for record in records:
        starts.append(len(body))
        cuts = [at for at in range(0, len(record) - 3, 4) if record[at : at + 4] == magic]
        edges = [-4, *cuts, len(record)]
        parts = [record[one + 4 : two] for one, two in pairwise(edges)]
        for number, part in enumerate(parts):
            last = len(parts) - 1
            kind = 0 if not last else 1 if not number else 3 if number == last else 2
            body += magic + struct.pack("<I", kind << 29 | len(part)) + part
            body += b"\0" * (-len(part) % 4)
    return bytes(body), starts


def packed(label: float | Sequence[float], data: bytes, number: int = 0) -> bytes:
    """Return a record's header and data, as mxnet.recordio.pack does."""
    if isinstance(label, int | float):
        return struct.pack("<IfQQ", 0, label, number, 0) + data
    labels = np.asarray(label, "<f4").tobytes()
    return struct.pack("<IfQQ", len(label), 0.0, number, 0) + labels + data


def idx_of(numbers: "np.ndarray[Any, np.dtype[np.uint8]]") -> bytes:
    """Return an IDX file."""
    head = bytes((0, 0, 8, numbers.ndim)) + struct.pack(f">{numbers.ndim}I", *numbers.shape)
    return head + numbers.tobytes()


def mnist_in(folder: Path, count: int = 5) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Write a test split of some pictures, labelled 0, 1, 2, ...; return the pictures."""
    pictures = np.random.default_rng(1).integers(0, 256, (count, 28, 28), np.uint8)
    labels = np.arange(count, dtype=np.uint8)
    written(folder / "t10k-images-idx3-ubyte.gz", gzip.compress(idx_of(pictures)))
    written(folder / "t10k-labels-idx1-ubyte.gz", gzip.compress(idx_of(labels)))
    return pictures


CIFAR10_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def cifar_in(folder: Path) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Write CIFAR-10's test batch of four pictures, binary; return their pixels' rows."""
    rows = np.random.default_rng(2).integers(0, 256, (4, 3072), np.uint8)
    labels = np.array([[3], [8], [8], [0]], np.uint8)
    written(folder / "test_batch.bin", np.hstack([labels, rows]).tobytes())
    # The archive's own file ends with an empty line.
    written(folder / "batches.meta.txt", "\n".join(CIFAR10_NAMES) + "\n\n")
    return rows


def coco_in(folder: Path, **changes: Any) -> Mapping[str, Any]:
    """Write two pictures and an instances file; return what the file says."""
    told: dict[str, Any] = {
        "images": [
            {"id": 7, "file_name": "a.jpg", "height": 9, "width": 12},
            {"id": 9, "file_name": "b.jpg", "height": 9, "width": 12},
        ],
        "categories": [{"id": 1, "name": "person"}, {"id": 90, "name": "toothbrush"}],
        "annotations": [
            {"id": 1, "image_id": 9, "category_id": 90, "iscrowd": 0, **_TRIANGLE},
            {"id": 2, "image_id": 9, "category_id": 1, "iscrowd": 1, **_CROWD},
        ],
        **changes,
    }
    written(folder / "annotations" / "instances_val2017.json", json.dumps(told))
    for number, name in enumerate(("a.jpg", "b.jpg")):
        written(folder / "val2017" / name, picture(number))
    return told


def squad_of(*questions: Mapping[str, Any]) -> str:
    """Return a SQuAD file of one paragraph."""
    paragraph = {"context": "Nikola lived in Graz.", "qas": list(questions)}
    return json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": [paragraph]}]})


def tfrecord_of(*records: bytes) -> bytes:
    """Return a TFRecord file; test_tfrecord has TensorFlow read one."""
    body = bytearray()
    for record in records:
        length = struct.pack("<Q", len(record))
        body += length + struct.pack("<I", masked_crc32c(length))
        body += record + struct.pack("<I", masked_crc32c(record))
    return bytes(body)


def example(**features: bytes | list[float] | list[int]) -> bytes:
    """Return a tf.train.Example; `__` in a name is a slash."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = _field(1, _field(1, value))
        elif isinstance(value[0], float):
            feature = _field(2, _field(1, np.array(value, "<f4").tobytes()))
        else:
            numbers = b"".join(_varint(int(each) % (1 << 64)) for each in value)
            feature = _field(3, _field(1, numbers))
        key = name.replace("__", "/").encode()
        entries += _field(1, _field(1, key) + _field(2, feature))
    return _field(1, entries)


def _field(number: int, body: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))
