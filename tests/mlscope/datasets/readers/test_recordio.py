"""MXNet RecordIO: what the format's writer makes is read, whole and in parts."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import BadField, BadRecord, DatasetError
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.readers.recordio import MAGIC, read_record
from tests.mlscope.datasets.layouts import packed, picture, recordio_of, written

MAGIC_BYTES = struct.pack("<I", MAGIC)


def stored(folder: Path, *records: bytes, index: bool = False) -> Path:
    """Write a .rec file, and an .idx that has the records in reverse."""
    body, starts = recordio_of(records)
    if index:
        lines = [f"{number}\t{start}" for number, start in enumerate(starts)]
        written(folder / "val.idx", "\n".join(reversed(lines)))
    return written(folder / "val.rec", body)


def classes(dataset: Dataset) -> list[tuple[int, ...]]:
    """Return the classes of all samples."""
    return [truth.classes for truth in dataset.truths if truth]


@pytest.mark.parametrize("index", [False, True])
def test_pictures_with_labels_in_the_order_of_file_or_index(tmp_path: Path, index: bool) -> None:
    bodies = [picture(seed) for seed in range(3)]
    records = [packed(float(number), body) for number, body in enumerate(bodies)]
    dataset = open_dataset("recordio", stored(tmp_path, *records, index=index), {"classes": 3})
    order = [2, 1, 0] if index else [0, 1, 2]
    assert list(dataset) == [bodies[each] for each in order]
    assert classes(dataset) == [(each,) for each in order]


def test_several_labels_are_numbers(tmp_path: Path) -> None:
    path = stored(tmp_path, packed([4.0, 5.0, 0.25], b"data"))
    dataset = open_dataset("recordio", path, {"labels": "values"})
    truth = dataset.truths[0]
    assert dataset[0] == b"data"
    assert truth is not None
    assert truth.values is not None
    assert truth.values.tolist() == [4.0, 5.0, 0.25]


@given(st.lists(st.sampled_from([MAGIC_BYTES, b"abcd", b"x", b""]), max_size=8))
def test_data_that_holds_the_magic_number_comes_back(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    record = b"".join(parts)
    body, starts = recordio_of([b"before", record, b"after"])
    path = written(tmp_path_factory.getbasetemp() / "magic.rec", body)
    assert read_record(path, starts[1], "f", 1) == record
    assert read_record(path, starts[2], "f", 2) == b"after"


def test_parts_are_padded_wherever_they_are_cut(tmp_path: Path) -> None:
    parts = [(1, b"a"), (2, b"bc"), (3, b"def")]
    body = b"".join(
        MAGIC_BYTES + struct.pack("<I", kind << 29 | len(part)) + part + b"\0" * (-len(part) % 4)
        for kind, part in parts
    )
    path = written(tmp_path / "a.rec", body)
    assert read_record(path, 0, "a", 0) == MAGIC_BYTES.join(part for _, part in parts)


def test_a_damaged_record_is_lost_alone_where_there_is_an_index(tmp_path: Path) -> None:
    path = stored(tmp_path, packed(0.0, b"first"), packed(1.0, b"second"), index=True)
    body = bytearray(path.read_bytes())
    body[0] ^= 1
    path.write_bytes(body)
    dataset = open_dataset("recordio", path)
    assert dataset[0] == b"second"
    with pytest.raises(BadRecord, match=r"val\.rec: record 1: begins with"):
        dataset[1]


def test_a_cut_file_is_named_with_its_record(tmp_path: Path) -> None:
    path = stored(tmp_path, packed(0.0, b"first"), packed(1.0, b"second"))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(BadRecord, match="record 1: cut short"):
        open_dataset("recordio", path)


def test_a_record_without_header_is_named(tmp_path: Path) -> None:
    dataset = open_dataset("recordio", stored(tmp_path, b"short", packed([1.0] * 3, b"")[:30]))
    with pytest.raises(BadRecord, match="5 bytes are too few for a header of 24"):
        dataset[0]
    with pytest.raises(BadRecord, match="its header has 3 labels"):
        dataset[1]


@pytest.mark.parametrize("label", [2.5, 7.0, [1.0, 2.0]])
def test_a_label_that_is_no_class_is_named(tmp_path: Path, label: float) -> None:
    dataset = open_dataset("recordio", stored(tmp_path, packed(label, b"")), {"classes": 3})
    with pytest.raises(BadField, match="record 0: label is"):
        dataset.truths[0]


@pytest.mark.parametrize("line", ["0", "0\tx", "0\t999999"])
def test_an_index_that_leads_nowhere_is_named(tmp_path: Path, line: str) -> None:
    path = stored(tmp_path, packed(0.0, b""))
    written(tmp_path / "val.idx", line)
    with pytest.raises(DatasetError, match=r"val\.idx: record line 1: offset"):
        open_dataset("recordio", path)


def test_labels_are_float32(tmp_path: Path) -> None:
    record = struct.pack("<IfQQ", 1, 0.0, 5, 0) + np.float32(0.1).tobytes() + b"d"
    truth = open_dataset("recordio", stored(tmp_path, record), {"labels": "values"}).truths[0]
    assert truth is not None
    assert truth.values is not None
    assert truth.values[0] == np.float32(0.1)
