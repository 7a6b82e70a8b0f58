"""MNIST and its kin (Fashion-MNIST, KMNIST): IDX files, as they are or packed by gzip.

An IDX file is two zeros, the element type (8: uint8), the number of dimensions, each dimension as a
big-endian uint32, then the numbers (LeCun, Cortes and Burges, the database's page).
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from mlscope.datasets.dataset import Dataset, inside, needed
from mlscope.datasets.errors import FileBroken
from mlscope.datasets.labels import classes_of
from mlscope.datasets.pixels import Pixels, form_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Where

_BLOCK_BYTES = 1 << 20
_MOST_BYTES = 8 << 30
_UINT8 = 8


def mnist(place: Place) -> Dataset:
    """`split` test (t10k-*, 10,000 pictures) or train (60,000); grey, 28 x 28.

    `gives` png (default), array (height, width, 1) or chw; `class_names` and `classes` (10).
    Raises DatasetError.
    """
    options = place.options
    start = {"test": "t10k", "train": "train"}[options.choice("split", ("test", "train"), "test")]
    form, classes = form_of(options), classes_of(place)
    if not classes.count and not classes.names:
        classes = Classes(count=10)
    files = [_file(place, f"{start}-{each}") for each in ("images-idx3", "labels-idx1")]
    pictures, labels = idx(files[0], place, 3), idx(files[1], place, 1)
    if len(pictures) != len(labels):
        reason = f"has {len(labels)} labels for {len(pictures)} pictures"
        raise FileBroken(place.shown(files[1]), reason)
    shown = place.shown(files[1])
    return Dataset(
        len(pictures),
        lambda index: form(pictures[index][:, :, np.newaxis]),
        lambda index: classes.truth(int(labels[index]), str(index), Where(shown, index)),
        classes.names,
    )


def idx(path: Path, place: Place, dimensions: int) -> Pixels:
    """Return the uint8 numbers of an IDX file, mapped into memory. Raises FileBroken."""
    shown = place.shown(path)
    with place.room() as room:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                shape = _shape(file.read(4 + 4 * dimensions), dimensions, shown)
                left = math.prod(shape) + 1
                while block := file.read(min(left, _BLOCK_BYTES)):
                    left -= room.write(block)
        except (OSError, EOFError, zlib.error) as error:
            raise FileBroken(shown, f"can't be unpacked: {error}") from error
        if room.tell() != math.prod(shape):
            found = "more" if not left else f"{room.tell()} bytes"
            reason = f"holds {found}, its head says {math.prod(shape)} bytes"
            raise FileBroken(shown, reason)
        if not math.prod(shape):
            return np.empty(shape, np.uint8)
        room.flush()
        return np.memmap(room, np.uint8, "r", 0, shape)


def _shape(head: bytes, dimensions: int, shown: str) -> tuple[int, ...]:
    if len(head) < 4 + 4 * dimensions:
        raise FileBroken(shown, "is cut short in its head")
    if head[:4] != bytes((0, 0, _UINT8, dimensions)):
        expected = f"an IDX head of uint8 in {dimensions} dimensions"
        raise FileBroken(shown, f"begins with {head[:4].hex()}, expected {expected}")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    if math.prod(shape) > _MOST_BYTES:
        raise FileBroken(shown, f"says that it holds {shape}, more than {_MOST_BYTES} bytes")
    return shape


def _file(place: Place, start: str) -> Path:
    for root in (place.path, place.path / "raw", place.path / "MNIST" / "raw"):
        for name in (
            f"{start}-ubyte",
            f"{start}-ubyte.gz",
            f"{start.replace('-idx', '.idx')}-ubyte",
        ):
            if (root / name).is_file():
                return inside(place.path, root / name)
    return needed(place.path, place.options.reader, f"{start}-ubyte", f"{start}-ubyte.gz")
