"""Datasets by the name of their layout, built in or found by entry point.

A package adds a layout with an entry point in the group `mlscope.datasets`: the reader's name,
leading to a function `(Place) -> Dataset`.
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
from mlscope.datasets.place import Place, Reader

GROUP = "mlscope.datasets"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "cifar10": "mlscope.datasets.cifar:cifar10",
        "cifar100": "mlscope.datasets.cifar:cifar100",
        "coco": "mlscope.datasets.coco:coco",
        "csv": "mlscope.datasets.rows:rows",
        "files": "mlscope.datasets.folder:files",
        "image_folder": "mlscope.datasets.folder:image_folder",
        "imagenet": "mlscope.datasets.imagenet:imagenet",
        "mnist": "mlscope.datasets.mnist:mnist",
        "npy": "mlscope.datasets.arrays:arrays",
        "npz": "mlscope.datasets.arrays:arrays",
        "paired_folders": "mlscope.datasets.paired:paired_folders",
        "recordio": "mlscope.datasets.recordio:recordio",
        "squad": "mlscope.datasets.squad:squad",
        "tfrecord": "mlscope.datasets.tfrecord:tfrecord",
        "urls": "mlscope.datasets.urls:urls",
    }
)
"""Readers by name: imported when one is asked for."""


def reader_names() -> tuple[str, ...]:
    """List every reader there is: the built-in ones and those of installed packages."""
    return tuple(sorted({*BUILT_IN, *(found.name for found in entry_points(group=GROUP))}))


def reader_named(name: str) -> Reader:
    """Return the reader of that name. Raises UnknownReader."""
    if name in BUILT_IN:
        module, _, function = BUILT_IN[name].partition(":")
        return cast("Reader", getattr(import_module(module), function))
    for found in entry_points(group=GROUP, name=name):
        return cast("Reader", found.load())
    raise UnknownReader(name, reader_names())


def open_dataset(
    reader: str,
    path: Path,
    options: Mapping[str, Any] | None = None,
    *,
    most_samples: int = 0,
    scratch: Path | None = None,
    brought: Mapping[str, Path | str] = MappingProxyType({}),
) -> Dataset:
    """Return the dataset at a path: its samples are found, and read when asked for.

    `scratch` is where a reader may unpack; without, in files that vanish. `brought` is where the
    files lie that addresses in the dataset lead to, or why one is missing. Raises DatasetError.
    """
    read = reader_named(reader)
    if not path.exists():
        raise LayoutMissing(path.name, "no such file or folder", reader)
    given = Options(reader, options or {})
    dataset = read(Place(path, given, scratch, brought))
    given.done()
    if not len(dataset):
        raise LayoutMissing(path.name, "holds no samples", reader)
    return dataset.first(most_samples)
