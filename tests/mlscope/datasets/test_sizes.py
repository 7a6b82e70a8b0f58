"""Files that are larger than a dataset's parts may be are refused, unread."""

import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mlscope.datasets.dataset import (
    MOST_JSON_BYTES,
    MOST_SAMPLE_BYTES,
    MOST_TEXT_BYTES,
    file_bytes,
    text_lines,
)
from mlscope.datasets.errors import BadRecord, FileBroken
from mlscope.datasets.opening import open_dataset


def sparse(path: Path, size_bytes: int) -> Path:
    """Write a file that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


def test_a_list_has_an_end(tmp_path: Path) -> None:
    with pytest.raises(FileBroken, match=f"larger than {MOST_TEXT_BYTES}"):
        text_lines(sparse(tmp_path / "x", MOST_TEXT_BYTES + 1), tmp_path)


@pytest.mark.parametrize(
    ("reader", "name"),
    [("squad", "dev.json"), ("coco", "annotations/instances_val2017.json")],
)
def test_annotations_have_an_end(tmp_path: Path, reader: str, name: str) -> None:
    (tmp_path / "val2017").mkdir()
    (tmp_path / "annotations").mkdir()
    sparse(tmp_path / name, MOST_JSON_BYTES + 1)
    tracemalloc.start()
    try:
        with pytest.raises(FileBroken, match=f"larger than {MOST_JSON_BYTES}"):
            open_dataset(reader, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_sample_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_SAMPLE_BYTES == 1 << 30
    monkeypatch.setattr("mlscope.datasets.dataset.MOST_SAMPLE_BYTES", 100)
    assert len(file_bytes(sparse(tmp_path / "x", 100), tmp_path, 0)) == 100
    with pytest.raises(BadRecord, match="larger than 100 bytes"):
        file_bytes(sparse(tmp_path / "x", 101), tmp_path, 0)


def test_an_archive_named_npy_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(FileBroken, match="an archive"):
        open_dataset("npy", tmp_path)


def test_a_small_archive_does_not_hold_much(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"x" * 1000)
    body = path.read_bytes()
    at = body.rindex(b"PK\x01\x02") + 24
    path.write_bytes(body[:at] + struct.pack("<I", 2 << 30) + body[at + 4 :])
    with pytest.raises(FileBroken, match="holds more than 1073741824 bytes"):
        open_dataset("npz", path)


@pytest.mark.parametrize("cell", ["1234567,", '"a,\n",'])
def test_a_row_has_an_end(tmp_path: Path, cell: str) -> None:
    count = (16 << 20) // len(cell) + 1
    (tmp_path / "x.csv").write_text("a,b\n" + cell * count)
    with pytest.raises(FileBroken, match="a row from byte 4 on has more than 16777216 bytes"):
        open_dataset("csv", tmp_path / "x.csv", {"features": ["a"]})
