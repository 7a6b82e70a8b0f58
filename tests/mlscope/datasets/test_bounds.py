"""What a dataset takes of memory does not grow with it: files larger than what is allowed here."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import idx_of, packed, recordio_of, tfrecord_of, written

MIB = 1 << 20
ALLOWED_BYTES = 8 * MIB
"""Far below each file; room for one sample, an index and what a library takes for itself."""


def sparse_npy(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write an array of 4 GiB, of which the disk holds nothing but the head."""
    path = folder / "x.npy"
    with path.open("wb") as file:
        head = {"descr": "<f4", "fortran_order": False, "shape": (MIB, 1024)}
        np.lib.format.write_array_header_1_0(file, head)  # type: ignore[no-untyped-call,unused-ignore]
        file.truncate(file.tell() + 4 * 1024 * MIB)
    return "npy", path, {}


def archive(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write an array of 64 MiB, packed."""
    np.savez_compressed(folder / "x.npz", x=np.zeros((64, 256, 1024), np.float32))
    return "npz", folder / "x.npz", {}


def records(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write 32 records of 1 MiB."""
    path = written(folder / "x.tfrecord", tfrecord_of(*[bytes(MIB)] * 32))
    return "tfrecord", path, {"raw": True}


def parts(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write 32 records of 1 MiB, as MXNet does."""
    body, _ = recordio_of([packed(1.0, bytes(MIB))] * 32)
    return "recordio", written(folder / "x.rec", body), {}


def rows(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write 24 MiB of rows."""
    row = f"1.5,{'word ' * 200},2.5\n"
    return "csv", written(folder / "x.csv", "a,text,b\n" + row * 25_000), {"features": ["a", "b"]}


def files(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write 32 files of 1 MiB."""
    for number in range(32):
        written(folder / "d" / f"{number:02}.jpg", bytes(MIB))
    return "files", folder / "d", {}


def pictures(folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Write 40,000 grey pictures, 30 MiB."""
    written(folder / "t10k-images-idx3-ubyte", idx_of(np.zeros((40_000, 28, 28), np.uint8)))
    written(folder / "t10k-labels-idx1-ubyte", idx_of(np.zeros(40_000, np.uint8)))
    return "mnist", folder, {"gives": "array"}


@pytest.mark.parametrize(
    "write",
    [sparse_npy, archive, records, parts, rows, files, pictures],
    ids=lambda one: one.__name__,
)
def test_memory_does_not_grow_with_the_dataset(
    tmp_path: Path, write: Callable[[Path], tuple[str, Path, dict[str, Any]]]
) -> None:
    reader, path, options = write(tmp_path)
    tracemalloc.start()
    try:
        dataset = open_dataset(reader, path, options, scratch=tmp_path)
        for index in np.linspace(0, len(dataset) - 1, 40).astype(int).tolist():
            sample, truth = dataset[index], dataset.truths[index]
            assert (len(sample) > 0, truth is None or bool(truth.classes or truth.name)) == (
                True,
                True,
            )
            del sample, truth
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < ALLOWED_BYTES
