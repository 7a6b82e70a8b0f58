"""CIFAR-10 and CIFAR-100 as their Python archives unpack: pickles, read without running them.

A row is 3072 bytes: 1024 of red, green and blue each, the picture's rows one after another
(Krizhevsky 2009, the data sets' page).
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.datasets.dataset import Dataset, inside, needed
from mlscope.datasets.errors import BadField, FileBroken
from mlscope.datasets.pixels import Pixels, form_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Truth, Where
from mlscope.datasets.unpickling import PickledArray, plain_pickle

_SIDE, _CHANNELS = 32, 3
_ROW_BYTES = _SIDE * _SIDE * _CHANNELS


@dataclass(frozen=True, slots=True)
class _Batch:
    """One file: rows of pixels in a mapped file, labels and names."""

    shown: str
    rows: Pixels
    labels: Sequence[int]
    names: Sequence[str]


def cifar10(place: Place) -> Dataset:
    """cifar-10-batches-py: `split` test (10,000 pictures) or train (50,000). Raises DatasetError.

    `gives` png (default), array (height, width, channels) or chw.
    """
    split = place.options.choice("split", ("test", "train"), "test")
    files = ["test_batch"] if split == "test" else [f"data_batch_{each}" for each in range(1, 6)]
    return _read(place, "cifar-10-batches-py", files, "labels", ("batches.meta", "label_names"))


def cifar100(place: Place) -> Dataset:
    """cifar-100-python: `split` test (10,000) or train (50,000), `labels` fine or coarse (20).

    `gives` as for CIFAR-10. Raises DatasetError.
    """
    split = place.options.choice("split", ("test", "train"), "test")
    kind = place.options.choice("labels", ("fine", "coarse"), "fine")
    names = ("meta", f"{kind}_label_names")
    return _read(place, "cifar-100-python", [split], f"{kind}_labels", names)


def _read(
    place: Place, folder: str, files: Sequence[str], field: str, naming: tuple[str, str]
) -> Dataset:
    root = place.path / folder if (place.path / folder).is_dir() else place.path
    inside(place.path, root)
    form = form_of(place.options)
    reader = place.options.reader
    names_file = needed(root, reader, naming[0])
    names = plain_pickle(names_file, place.shown(names_file)).get(naming[1])
    if not isinstance(names, list) or not all(isinstance(each, bytes | str) for each in names):
        raise BadField(place.shown(names_file), 0, naming[1], names, "a list of class names")
    classes = Classes(tuple(_text(each) for each in names))
    batches = [_batch(place, needed(root, reader, each), field) for each in files]
    starts = np.cumsum([0, *(len(each.rows) for each in batches)])

    def at(index: int) -> tuple[_Batch, int]:
        owner = int(np.searchsorted(starts, index, side="right")) - 1
        return batches[owner], index - int(starts[owner])

    def sample(index: int) -> Any:
        batch, row = at(index)
        return form(batch.rows[row].reshape(_CHANNELS, _SIDE, _SIDE).transpose(1, 2, 0))

    def truth(index: int) -> Truth:
        batch, row = at(index)
        where = Where(batch.shown, row, field)
        return classes.truth(batch.labels[row], batch.names[row], where)

    return Dataset(int(starts[-1]), sample, truth, classes.names)


def _batch(place: Place, path: Path, field: str) -> _Batch:
    shown = place.shown(path)
    found = plain_pickle(path, shown)
    data, labels = found.get("data"), found.get(field)
    if not isinstance(data, PickledArray) or data.kind != "u1":
        raise BadField(shown, 0, "data", type(data).__name__, "an array of uint8")
    count = len(data.body) // _ROW_BYTES
    if data.shape != (count, _ROW_BYTES) or len(data.body) != count * _ROW_BYTES:
        raise BadField(shown, 0, "data", data.shape, f"rows of {_ROW_BYTES} bytes")
    if not isinstance(labels, list) or not all(type(each) is int for each in labels):
        raise BadField(shown, 0, field, labels, "a list of whole numbers")
    if len(labels) != count:
        raise FileBroken(shown, f"has {len(labels)} {field} for {count} pictures")
    named = found.get("filenames") or []
    if not isinstance(named, list) or not all(isinstance(each, bytes | str) for each in named):
        raise BadField(shown, 0, "filenames", named, "a list of file names")
    names = [_text(each) for each in named]
    if len(names) != count:
        names = [f"{shown}:{row}" for row in range(count)]
    return _Batch(shown, _mapped(path, data.body, place), labels, names)


def _mapped(path: Path, body: bytes, place: Place) -> Pixels:
    """Return rows of pixels that stay on disk: in the pickle itself, where they lie as they are."""
    if not body:
        return np.empty((0, _ROW_BYTES), np.uint8)
    shape = (len(body) // _ROW_BYTES, _ROW_BYTES)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        start = whole.find(body)
    if start >= 0:
        return np.memmap(path, np.uint8, "r", start, shape)
    with place.room() as room:
        room.write(body)
        room.flush()
        return np.memmap(room, np.uint8, "r", 0, shape)


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
