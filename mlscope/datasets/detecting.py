"""Which reader a folder or file is for, by what lies in it."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlscope.datasets.errors import LayoutUnknown
from mlscope.datasets.folder import LABEL_FILES, PICTURES, paths_below
from mlscope.datasets.paired import are_paired

_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        ".npy": "npy",
        ".npz": "npz",
        ".rec": "recordio",
        ".tfrecord": "tfrecord",
        ".tfrecords": "tfrecord",
        ".tfrec": "tfrecord",
    }
)
_HOLDING: tuple[tuple[str, str], ...] = (
    ("batches.meta", "cifar10"),
    ("cifar-10-batches-py/batches.meta", "cifar10"),
    ("cifar-100-python/meta", "cifar100"),
    ("*-images*idx3-ubyte*", "mnist"),
    ("raw/*-images*idx3-ubyte*", "mnist"),
    ("MNIST/raw/*-images*idx3-ubyte*", "mnist"),
    ("*.tfrecord*", "tfrecord"),
    ("*-[0-9]*[0-9]-of-[0-9]*[0-9]", "tfrecord"),
    ("*.rec", "recordio"),
    ("dev-*.json", "squad"),
    ("ILSVRC2012*", "imagenet"),
    ("n[0-9]*[0-9]/*.JPEG", "imagenet"),
    ("val/n[0-9]*[0-9]/*.JPEG", "imagenet"),
    ("val/ILSVRC2012_val_*.JPEG", "imagenet"),
    ("data/ILSVRC2012_validation_ground_truth.txt", "imagenet"),
)
"""What one finds in a layout, the surest first."""

_HEAD_BYTES = 4096
_SQUAD = re.compile(rb'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[')


def reader_for(path: Path) -> tuple[str, Mapping[str, Any]]:
    """Return the reader for a folder or file, and the options that follow from what is there.

    A CSV is read only where its columns are named, so it is never guessed. Raises LayoutUnknown.
    """
    if path.is_file():
        if path.suffix.lower() in PICTURES:
            return "files", {}
        if path.suffix.lower() == ".json" and is_squad(path):
            return "squad", {}
        if path.suffix.lower() not in _SUFFIXES:
            raise LayoutUnknown(path.name, "a file's reader shows in its ending")
        return _SUFFIXES[path.suffix.lower()], {}
    splits = sorted(path.glob("annotations/instances_*.json"), reverse=True)
    if splits:
        return "coco", {"split": splits[0].stem.removeprefix("instances_")}
    for pattern, reader in _HOLDING:
        if any(path.glob(pattern)):
            return reader, {}
    return _pictures(path)


def is_squad(path: Path) -> bool:
    """Tell a file of SQuAD, a map with a list `data`, by how it begins; nothing else is read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return _SQUAD.match(head) is not None


def _pictures(folder: Path) -> tuple[str, Mapping[str, Any]]:
    """Return how a folder of pictures is read. Raises LayoutUnknown where there are none."""
    if next(paths_below(folder, PICTURES), None) is None:
        raise LayoutUnknown(folder.name, "it holds neither pictures nor a known layout")
    if any((folder / name).is_file() for name in LABEL_FILES):
        return "image_folder", {}
    if are_paired(folder):
        return "paired_folders", {}
    is_flat = any(each.suffix.lower() in PICTURES for each in folder.iterdir())
    return "image_folder", {"labelled": False} if is_flat else {}
