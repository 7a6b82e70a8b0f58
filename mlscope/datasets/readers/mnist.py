"""MNIST and its relatives (Fashion-MNIST, KMNIST): IDX files, plain or packed by gzip.

An IDX file is two zeros, the element type (8: uint8), the number of dimensions, each dimension as a
big-endian uint32, then the numbers (LeCun, Cortes and Burges, the database's page).
"""

import gzip
import math
import struct
import zlib
from itertools import product
from pathlib import Path

import numpy as np

from mlscope.datasets.dataset import Dataset, first_existing, require_below
from mlscope.datasets.errors import FileBroken
from mlscope.datasets.labels import classes_of
from mlscope.datasets.pixels import Pixels, pixel_converter
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Classes, LabelLocation

_BLOCK_BYTES = 1 << 20
_MOST_BYTES = 8 << 30
_UINT8 = 8


def mnist(source: ReaderInput) -> Dataset:
    """Read `split` test (t10k-*, 10,000 pictures) or train (60,000); grey, 28 x 28.

    `gives` is png (default), array (height, width, 1) or chw; `class_names` and `classes` (10) as
    for folders. Raises DatasetError.
    """
    options = source.options
    split = options.choice("split", ("test", "train"), "test")
    prefix = {"test": "t10k", "train": "train"}[split]
    convert, classes = pixel_converter(options), classes_of(source)
    if not classes.count and not classes.names:
        classes = Classes(count=10)
    picture_file, label_file = (
        _idx_file(source, f"{prefix}-{name}") for name in ("images-idx3", "labels-idx1")
    )
    pictures, labels = read_idx(picture_file, source, 3), read_idx(label_file, source, 1)
    file = source.shown(label_file)
    if len(pictures) != len(labels):
        raise FileBroken(file, f"has {len(labels)} labels for {len(pictures)} pictures")
    return Dataset(
        len(pictures),
        lambda index: convert(pictures[index][:, :, np.newaxis]),
        lambda index: classes.truth_of_index(
            int(labels[index]), str(index), LabelLocation(file, index)
        ),
        classes.names,
    )


def shape_in_head(head: bytes, dimensions: int, name: str) -> tuple[int, ...]:
    """Return the shape in the `head` of an IDX file of some `dimensions`; errors `name` the file.

    Raises FileBroken for another head, and for more than `_MOST_BYTES` behind it.
    """
    if len(head) < 4 + 4 * dimensions:
        raise FileBroken(name, "is cut short in its head")
    if head[:4] != bytes((0, 0, _UINT8, dimensions)):
        expected = f"an IDX head of uint8 in {dimensions} dimensions"
        raise FileBroken(name, f"begins with {head[:4].hex()}, expected {expected}")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    if math.prod(shape) > _MOST_BYTES:
        reason = f"has the shape {shape} in its head, more than {_MOST_BYTES} bytes"
        raise FileBroken(name, reason)
    return shape


def read_idx(path: Path, source: ReaderInput, dimensions: int) -> Pixels:
    """Return the uint8 numbers of the IDX file at `path`, mapped into memory, [d1, … dn].

    n is `dimensions`. They are unpacked into a scratch file of `source`. Raises FileBroken.
    """
    name = source.shown(path)
    with source.scratch_file() as scratch:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                shape = shape_in_head(file.read(4 + 4 * dimensions), dimensions, name)
                # One byte more than the head says, to see that there are no more.
                unread_bytes = math.prod(shape) + 1
                while block := file.read(min(unread_bytes, _BLOCK_BYTES)):
                    unread_bytes -= scratch.write(block)
        except (OSError, EOFError, zlib.error) as error:
            raise FileBroken(name, f"can't be unpacked: {error}") from error
        if scratch.tell() != math.prod(shape):
            size = "more bytes" if not unread_bytes else f"{scratch.tell()} bytes"
            reason = f"has {size}; its header declares {math.prod(shape)} bytes"
            raise FileBroken(name, reason)
        if not math.prod(shape):
            return np.empty(shape, np.uint8)
        scratch.flush()
        return np.memmap(scratch, np.uint8, "r", 0, shape)


def _idx_file(source: ReaderInput, prefix: str) -> Path:
    """Return the IDX file of that prefix, in any of its spellings. Raises LayoutMissing."""
    roots = source.path, source.path / "raw", source.path / "MNIST" / "raw"
    names = f"{prefix}-ubyte", f"{prefix}-ubyte.gz", f"{prefix.replace('-idx', '.idx')}-ubyte"
    for root, name in product(roots, names):
        if (root / name).is_file():
            return require_below(source.path, root / name)
    reader = source.options.reader
    return first_existing(source.path, reader, f"{prefix}-ubyte", f"{prefix}-ubyte.gz")
