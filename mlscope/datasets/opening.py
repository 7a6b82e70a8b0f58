"""Open a dataset with a reader by name, built in or found by entry point.

A package adds a reader with an entry point in the group `mlscope.datasets`: the reader's name,
leading to a function `(ReaderInput) -> Dataset`.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import LayoutMissing, UnknownReader
from mlscope.datasets.options import Options
from mlscope.datasets.reader_input import BoundedFolder, Reader, ReaderInput

GROUP = "mlscope.datasets"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "cifar10": "mlscope.datasets.readers.cifar:cifar10",
        "cifar100": "mlscope.datasets.readers.cifar:cifar100",
        "coco": "mlscope.datasets.readers.coco:coco",
        "csv": "mlscope.datasets.readers.rows:rows",
        "files": "mlscope.datasets.readers.folder:files",
        "image_folder": "mlscope.datasets.readers.folder:image_folder",
        "imagenet": "mlscope.datasets.readers.imagenet:imagenet",
        "mnist": "mlscope.datasets.readers.mnist:mnist",
        "npy": "mlscope.datasets.readers.arrays:arrays",
        "npz": "mlscope.datasets.readers.arrays:arrays",
        "paired_folders": "mlscope.datasets.readers.paired:paired_folders",
        "recordio": "mlscope.datasets.readers.recordio:recordio",
        "squad": "mlscope.datasets.readers.squad:squad",
        "tfrecord": "mlscope.datasets.readers.tfrecord:tfrecord",
        "urls": "mlscope.datasets.readers.urls:urls",
    }
)
"""Readers by name. The module is imported when its reader is first asked for."""


def reader_names() -> tuple[str, ...]:
    """Return the names of all readers: the built-in ones and those of installed packages."""
    return tuple(sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))}))


def reader_named(name: str) -> Reader:
    """Return the reader of that name. Raises UnknownReader."""
    if name in BUILT_IN:
        module, _, function = BUILT_IN[name].partition(":")
        return cast("Reader", getattr(import_module(module), function))
    for entry in entry_points(group=GROUP, name=name):
        return cast("Reader", entry.load())
    raise UnknownReader(name, reader_names())


def open_dataset(
    reader: str,
    path: Path,
    options: Mapping[str, Any] | None = None,
    *,
    most_samples: int = 0,
    scratch: Path | BoundedFolder | None = None,
    fetched: Mapping[str, Path | str] = MappingProxyType({}),
) -> Dataset:
    """Return the dataset at `path`: finds its samples, which are read when they are asked for.

    `reader` and its `options` say how; `most_samples` keeps the first ones alone, 0 all. `scratch`
    is a folder to unpack files into, by default the system's folder for temporary files; a
    BoundedFolder limits their bytes. `fetched` has, for each address that the dataset names, the
    fetched file or why it could not be fetched. Raises DatasetError.
    """
    read = reader_named(reader)
    if not path.exists():
        raise LayoutMissing(path.name, "no such file or folder", reader)
    reader_options = Options(reader, options or {})
    dataset = read(ReaderInput(path, reader_options, scratch, fetched))
    reader_options.reject_unread()
    if not len(dataset):
        raise LayoutMissing(path.name, "holds no samples", reader)
    return dataset.first(most_samples)
