"""TFRecord: what TensorFlow writes is read; what is cut or altered is named."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.datasets.errors import (
    BadField,
    BadOption,
    BadRecord,
    DatasetError,
    LayoutMissing,
    PackageNeeded,
)
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.readers.tfrecord import masked_crc32c
from tests.mlscope.datasets.layouts import example, picture, tfrecord_of, written


def shard(path: Path, *records: bytes) -> Path:
    """Write a file of records."""
    return written(path, tfrecord_of(*records))


def pictures(folder: Path, ending: str = ".tfrecord") -> list[bytes]:
    """Write two shards of three pictures, labelled 1, 2 and 3; return the pictures."""
    bodies = [picture(seed) for seed in range(3)]
    records = [
        example(image__encoded=body, image__class__label=[number + 1])
        for number, body in enumerate(bodies)
    ]
    shard(folder / f"validation-00000-of-00002{ending}", *records[:2])
    shard(folder / f"validation-00001-of-00002{ending}", *records[2:])
    return bodies


@pytest.mark.parametrize("ending", [".tfrecord", ""])
def test_pictures_of_all_shards_with_their_labels(tmp_path: Path, ending: str) -> None:
    bodies = pictures(tmp_path, ending)
    written(tmp_path / "notes.txt", "x")
    dataset = open_dataset("tfrecord", tmp_path, {"label_offset": -1, "classes": 3})
    assert list(dataset) == bodies
    assert [truth.classes for truth in dataset.truths if truth] == [(0,), (1,), (2,)]


def test_numbers_become_tensors_by_input(tmp_path: Path) -> None:
    raw = np.arange(6, dtype="<i2").tobytes()
    path = shard(tmp_path / "a.tfrecord", example(x=[1.5, 2.5], ids=[3, -4], raw=raw))
    features = {
        "x": {"feature": "x", "shape": [1, 2]},
        "ids": {"element_type": "int32"},
        "pixels": {"feature": "raw", "element_type": "int16", "shape": [2, 3]},
    }
    sample = open_dataset("tfrecord", path, {"label": "", "features": features})[0]
    assert sample["x"].tolist() == [[1.5, 2.5]]
    assert sample["ids"].tolist() == [3, -4]
    assert sample["ids"].dtype == np.int32
    assert sample["pixels"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_raw_records_are_what_was_written(tmp_path: Path) -> None:
    records = [b"", b"x", bytes(range(256)) * 30]
    path = shard(tmp_path / "a.tfrecord", *records)
    assert list(open_dataset("tfrecord", path, {"raw": True})) == records


def test_one_altered_record_is_lost_alone(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tfrecord", b"first", b"second", b"third")
    body = bytearray(path.read_bytes())
    body[body.index(b"second") + 2] ^= 1
    path.write_bytes(body)
    dataset = open_dataset("tfrecord", path, {"raw": True})
    assert (dataset[0], dataset[2]) == (b"first", b"third")
    with pytest.raises(BadRecord, match=r"a\.tfrecord: record 1: data has CRC"):
        dataset[1]


def test_a_file_cut_short_is_named_with_its_record(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tfrecord", b"first", b"second")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BadRecord, match="record 1: cut short: ends 3 bytes too early"):
        open_dataset("tfrecord", path, {"raw": True})


def test_an_altered_length_is_not_followed(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tfrecord", b"first")
    path.write_bytes(struct.pack("<Q", 1 << 50) + path.read_bytes()[8:])
    with pytest.raises(BadRecord, match="record 0: length has CRC"):
        open_dataset("tfrecord", path, {"raw": True})


@pytest.mark.parametrize(
    ("record", "options", "words"),
    [
        (example(x=[1]), {"image": "image"}, "record 0: image is 'missing', expected one of x"),
        (example(x=[1]), {"features": {"x": {"shape": [3]}}}, "x is '1 numbers', expected 3"),
        (b"\x0a\x7f", {}, "record 0: no tf.train.Example"),
    ],
)
def test_what_a_record_lacks_is_named(
    tmp_path: Path, record: bytes, options: dict[str, Any], words: str
) -> None:
    dataset = open_dataset("tfrecord", shard(tmp_path / "a.tfrecord", record), options)
    with pytest.raises(BadRecord, match=words):
        dataset[0]


def test_nan_is_named_unless_it_may_be_meant(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tfrecord", example(x=[1.0, float("nan")]))
    options = {"label": "", "features": {"x": {}}}
    with pytest.raises(BadField, match=r"a\.tfrecord: record 0: x is 'NaN'"):
        open_dataset("tfrecord", path, options)[0]
    assert np.isnan(open_dataset("tfrecord", path, {**options, "allow_nan": True})[0][1])


@pytest.mark.parametrize(
    ("label", "words"), [([9], "is 9, expected a class, 0 to 2"), ([1, 2], "expected one label")]
)
def test_a_label_that_is_no_class_is_named(tmp_path: Path, label: list[int], words: str) -> None:
    record = example(image__encoded=b"", image__class__label=label)
    dataset = open_dataset("tfrecord", shard(tmp_path / "a.tfrecord", record), {"classes": 3})
    with pytest.raises(BadField, match=words) as raised:
        dataset.truths[0]
    assert raised.value.field == "image/class/label"


def test_names_of_classes_may_be_the_label(tmp_path: Path) -> None:
    written(tmp_path / "names.txt", "cat\ndog\n")
    path = shard(tmp_path / "a.tfrecord", example(image__encoded=b"", animal=b"dog"))
    options = {"label": "animal", "class_names": "names.txt"}
    truth = open_dataset("tfrecord", path, options).truths[0]
    assert truth is not None
    assert (truth.classes, truth.labels) == ((1,), ("dog",))


@pytest.mark.parametrize(
    "options",
    [{"imgae": "x"}, {"features": {"x": 3}}, {"features": {"x": {"shape": [0]}}}, {"classes": -1}],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    path = shard(tmp_path / "a.tfrecord", b"")
    with pytest.raises(BadOption):
        open_dataset("tfrecord", path, options)


def test_a_folder_without_records_says_so(tmp_path: Path) -> None:
    with pytest.raises(LayoutMissing, match=r"has no \*\.tfrecord"):
        open_dataset("tfrecord", tmp_path)


@pytest.mark.parametrize("length", range(1, 40))
def test_any_cut_is_noticed(tmp_path: Path, length: int) -> None:
    path = shard(tmp_path / "a.tfrecord", b"first", b"second")
    whole = path.read_bytes()
    ends = {0, 12 + 5 + 4, len(whole)}
    path.write_bytes(whole[:length])
    if length in ends:
        assert len(open_dataset("tfrecord", path, {"raw": True})) == 1
        return
    with pytest.raises(DatasetError, match="cut short"):
        open_dataset("tfrecord", path, {"raw": True})


TENSORFLOW = """
import json, sys
import tensorflow as tf

theirs, ours = sys.argv[1:]
feature, train = tf.train.Feature, tf.train
with tf.io.TFRecordWriter(theirs) as writer:
    for number in range(3):
        features = {
            "raw": feature(bytes_list=train.BytesList(value=[bytes(range(256)) * number * 40])),
            "x": feature(float_list=train.FloatList(value=[0.1, -2.5, number])),
            "ids": feature(int64_list=train.Int64List(value=[number, -1, 2**62])),
            "none": feature(),
        }
        example = train.Example(features=train.Features(feature=features))
        writer.write(example.SerializeToString())
found = []
for record in tf.data.TFRecordDataset(ours).as_numpy_iterator():
    features = train.Example.FromString(record).features.feature
    found.append([features["ids"].int64_list.value[:], len(features["raw"].bytes_list.value[0])])
print(json.dumps([[list(ids), size] for ids, size in found]))
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_tensorflow_and_this_reader_read_each_other(tmp_path: Path) -> None:
    """In a process of its own: TensorFlow's threads would stay in this one."""
    ours = shard(tmp_path / "ours", *(example(ids=[n, -n], raw=b"r" * 700 * n) for n in range(3)))
    theirs = tmp_path / "theirs.tfrecord"
    command = [sys.executable, "-c", TENSORFLOW, str(theirs), str(ours)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[[0, 0], 0], [[1, -1], 700], [[2, -2], 1400]]
    fields: dict[str, dict[str, str]] = {"raw": {}, "x": {}, "ids": {}}
    dataset = open_dataset("tfrecord", theirs, {"label": "", "features": fields})
    for number, sample in enumerate(dataset):
        assert sample["raw"] == bytes(range(256)) * number * 40
        assert sample["x"].tolist() == np.array([0.1, -2.5, number], np.float32).tolist()
        assert sample["ids"].tolist() == [number, -1, 2**62]


@pytest.mark.parametrize(
    ("body", "masked"),
    [
        (b"", 0xA282EAD8),
        (b"123456789", 0xC78AB0E5),
        (bytes(32), 0x0FD7FFFA),
    ],
)
def test_the_masked_sum_of_known_values(body: bytes, masked: int) -> None:
    """CRC-32C of RFC 3720, appendix B.4, rotated and shifted as TensorFlow does."""
    assert masked_crc32c(body) == masked


def test_a_missing_wheel_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.tfrecord", tfrecord_of(b"x"))
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(PackageNeeded, match=r"pip install 'mlscope\[datasets\]'"):
        open_dataset("tfrecord", path, {"raw": True})
