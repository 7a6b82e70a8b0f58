"""Detect which reader a folder or file needs, from the names of the files in it."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlscope.datasets.errors import LayoutUnknown
from mlscope.datasets.readers.folder import LABEL_FILES, PICTURE_SUFFIXES, paths_below
from mlscope.datasets.readers.paired import is_paired

_READER_BY_SUFFIX: Mapping[str, str] = MappingProxyType(
    {
        ".npy": "npy",
        ".npz": "npz",
        ".rec": "recordio",
        ".tfrecord": "tfrecord",
        ".tfrecords": "tfrecord",
        ".tfrec": "tfrecord",
        **dict.fromkeys(PICTURE_SUFFIXES, "files"),
    }
)
_READER_BY_CONTENT: tuple[tuple[str, str], ...] = (
    ("batches.meta.txt", "cifar10"),
    ("cifar-10-batches-bin/batches.meta.txt", "cifar10"),
    ("fine_label_names.txt", "cifar100"),
    ("cifar-100-binary/fine_label_names.txt", "cifar100"),
    # CIFAR's pickled form: its reader says what to download instead.
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
"""A file that only this layout has, and the layout's reader; the most certain first."""

_HEAD_BYTES = 4096
_SQUAD_HEAD = re.compile(rb'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[')


def detect_reader(path: Path) -> tuple[str, Mapping[str, Any]]:
    """Return the reader for a folder or file, and the options that follow from its content.

    A CSV needs the names of its columns, so it is never detected. Raises LayoutUnknown.
    """
    if path.is_file():
        suffix = path.suffix.lower()
        if suffix == ".json" and is_squad(path):
            return "squad", {}
        if suffix not in _READER_BY_SUFFIX:
            raise LayoutUnknown(path.name, "no reader is known for this file's ending")
        return _READER_BY_SUFFIX[suffix], {}
    splits = sorted(path.glob("annotations/instances_*.json"), reverse=True)
    if splits:
        return "coco", {"split": splits[0].stem.removeprefix("instances_")}
    for pattern, reader in _READER_BY_CONTENT:
        if any(path.glob(pattern)):
            return reader, {}
    return _detect_pictures(path)


def is_squad(path: Path) -> bool:
    """Return whether a file is SQuAD's, a map with a list `data`. Reads its first bytes alone."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return _SQUAD_HEAD.match(head) is not None


def _detect_pictures(folder: Path) -> tuple[str, Mapping[str, Any]]:
    """Return the reader and options for a folder of pictures, or of arrays without any.

    Raises LayoutUnknown.
    """
    if next(paths_below(folder, PICTURE_SUFFIXES), None) is None:
        if any(folder.glob("*.npy")):
            return "npy", {}
        raise LayoutUnknown(folder.name, "it holds neither pictures nor a known layout")
    if any((folder / name).is_file() for name in LABEL_FILES):
        return "image_folder", {}
    if is_paired(folder):
        return "paired_folders", {}
    is_flat = any(path.suffix.lower() in PICTURE_SUFFIXES for path in folder.iterdir())
    return "image_folder", {"labelled": False} if is_flat else {}
