"""CIFAR-10 and CIFAR-100 in their binary form.

A row of CIFAR-10 is a label byte and 3072 bytes of pixels; one of CIFAR-100 a coarse label byte, a
fine label byte and the pixels: 1024 bytes of red, then of green, then of blue, each plane's rows
one after another (https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version").
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.datasets.dataset import Dataset, first_existing, require_below, text_lines
from mlscope.datasets.errors import FileBroken, LayoutUnsupported
from mlscope.datasets.pixels import Pixels, pixel_converter
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Classes, LabelLocation, Truth

_SIDE, _CHANNELS = 32, 3
_PIXEL_BYTES = _SIDE * _SIDE * _CHANNELS
_DOWNLOAD = "download the binary archive: https://www.cs.toronto.edu/~kriz/"


def cifar10(source: ReaderInput) -> Dataset:
    """Read cifar-10-batches-bin: `split` test (10,000 pictures) or train (50,000).

    `gives` is png (default), array (height, width, channels) or chw. Raises DatasetError.
    """
    split = source.options.choice("split", ("test", "train"), "test")
    root = _binary_folder(
        source, ("cifar-10-batches-bin", "cifar-10-batches-py"), "batches.meta", "cifar-10-binary"
    )
    names = ["test_batch"] if split == "test" else [f"data_batch_{n}" for n in range(1, 6)]
    files = [f"{name}.bin" for name in names]
    return _open_batches(source, root, files, "batches.meta.txt", label_bytes=1, label_column=0)


def cifar100(source: ReaderInput) -> Dataset:
    """Read cifar-100-binary: `split` test (10,000 pictures) or train (50,000).

    `labels` is fine (default, 100 classes) or coarse (20); `gives` as for CIFAR-10. Raises
    DatasetError.
    """
    split = source.options.choice("split", ("test", "train"), "test")
    kind = source.options.choice("labels", ("fine", "coarse"), "fine")
    root = _binary_folder(
        source, ("cifar-100-binary", "cifar-100-python"), "meta", "cifar-100-binary"
    )
    names_file, column = f"{kind}_label_names.txt", ("coarse", "fine").index(kind)
    files = [f"{split}.bin"]
    return _open_batches(source, root, files, names_file, label_bytes=2, label_column=column)


def _binary_folder(
    source: ReaderInput, folders: tuple[str, str], pickled_file: str, archive: str
) -> Path:
    """Return the folder with the binary files. Raises LayoutUnsupported for the pickled form.

    `folders` are the names of the binary and of the pickled folder, `pickled_file` a file that the
    pickled form alone has, and `archive` the name of the binary archive.
    """
    binary, pickled = folders
    if (source.path / binary).is_dir():
        return require_below(source.path, source.path / binary)
    for file in (source.path / pickled / pickled_file, source.path / pickled_file):
        if file.is_file():
            remedy = f"{_DOWNLOAD}{archive}.tar.gz"
            raise LayoutUnsupported(source.shown(file), "CIFAR's pickled Python form", remedy)
    return source.path


def _open_batches(
    source: ReaderInput,
    root: Path,
    files: Sequence[str],
    names_file: str,
    *,
    label_bytes: int,
    label_column: int,
) -> Dataset:
    """Return the pictures of `files`, their rows mapped into memory.

    A row begins with `label_bytes` labels, of which the one in `label_column` counts; `names_file`
    has its class names, one a line. Raises DatasetError.
    """
    converted, reader = pixel_converter(source.options), source.options.reader
    names_path = require_below(source.path, first_existing(root, reader, names_file))
    classes = Classes(tuple(line.strip() for line in text_lines(names_path, source.path)))
    paths = [require_below(source.path, first_existing(root, reader, file)) for file in files]
    batches = [_rows(path, source.shown(path), label_bytes + _PIXEL_BYTES) for path in paths]
    starts = np.cumsum([0, *(len(rows) for rows in batches)])

    def locate(index: int) -> tuple[int, int]:
        batch = int(np.searchsorted(starts, index, side="right")) - 1
        return batch, index - int(starts[batch])

    def sample(index: int) -> Any:
        batch, row = locate(index)
        planes = batches[batch][row, label_bytes:].reshape(_CHANNELS, _SIDE, _SIDE)
        return converted(planes.transpose(1, 2, 0))

    def truth(index: int) -> Truth:
        batch, row = locate(index)
        label, file = int(batches[batch][row, label_column]), source.shown(paths[batch])
        return classes.truth_of_index(label, f"{file}:{row}", LabelLocation(file, row))

    return Dataset(int(starts[-1]), sample, truth, classes.names)


def _rows(path: Path, file: str, row_bytes: int) -> Pixels:
    """Return a file's rows (uint8 [rows, row_bytes]), mapped into memory. Raises FileBroken."""
    try:
        size = path.stat().st_size
        if size % row_bytes:
            raise FileBroken(file, f"has {size} bytes, expected rows of {row_bytes} bytes")
        if not size:
            return np.empty((0, row_bytes), np.uint8)
        return np.memmap(path, np.uint8, "r", 0, (size // row_bytes, row_bytes))
    except OSError as error:
        raise FileBroken(file, error.strerror or str(error)) from error
