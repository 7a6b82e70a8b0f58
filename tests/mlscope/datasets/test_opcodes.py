"""Pickles that build far more than they hold are refused before they build it."""

import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.errors import BadField, FileBroken
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.unpickling import plain_pickle
from tests.mlscope.datasets.layouts import cifar_in, written

MIB = 1 << 20


def shared(depth: int, kind: type = list) -> Any:
    """Return a value that holds another one twice, which does so too."""
    value: Any = kind((1,))
    for _ in range(depth):
        value = kind((value, value))
    return value


def nested(depth: int) -> bytes:
    return b"\x80\x02}K\x00" + b"\x85" * depth + b"K\x01s."


@pytest.mark.parametrize(
    "body",
    [
        b"\x80\x02}r" + struct.pack("<I", 1 << 24) + b".",
        b"}p16777216\n.",
        pickle.dumps({"a": shared(6)}),
        pickle.dumps({shared(6, tuple): 1}),
        nested(1000),
        b"\x80\x02}K\x002.",
        b"\x80\x02}0.",
        b"\x80\x02\x85.",
    ],
    ids=["memo", "text memo", "list", "key", "deep", "twice", "pop", "empty stack"],
)
def test_what_builds_too_much_is_refused(tmp_path: Path, body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FileBroken, match="no pickle of plain data"):
            plain_pickle(written(tmp_path / "x", body), "x")
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_a_text_is_encoded_no_more_than_once(tmp_path: Path) -> None:
    text = "é" * 1000
    named = b"c_codecs\nencode\nq\x00X" + struct.pack("<I", 2000) + text.encode() + b"q\x01"
    again = b"".join(b"h\x00h\x01\x85R" for _ in range(9))
    body = b"\x80\x02}X\x01\x00\x00\x00a(" + named + b"\x86" + again + b"ts."
    with pytest.raises(FileBroken, match="encodes more text than it holds"):
        plain_pickle(written(tmp_path / "x", body), "x")


@pytest.mark.parametrize("key", [1, (1, 2), None])
def test_keys_are_texts(tmp_path: Path, key: Any) -> None:
    with pytest.raises(FileBroken, match="keys are no texts"):
        plain_pickle(written(tmp_path / "x", pickle.dumps({key: 1})), "x")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_passes(tmp_path: Path, protocol: int) -> None:
    told = {"a": [1, 2, [3.5, "x", b"y"]], "b": {"c": ("x", True, None)}, "d": list(range(5000))}
    path = written(tmp_path / "x", pickle.dumps(told, protocol))
    found = plain_pickle(path, "x")
    assert (found["a"], found["d"]) == (told["a"], told["d"])


@pytest.mark.parametrize("names", [5, [1, 2, 3, 4], "text", [[b"a"]] * 4])
def test_names_of_files_are_texts(tmp_path: Path, names: Any) -> None:
    cifar_in(tmp_path)
    batch = plain_pickle(tmp_path / "test_batch", "test_batch")
    body = {"labels": batch["labels"], "filenames": names}
    told = pickle.loads((tmp_path / "test_batch").read_bytes())
    written(tmp_path / "test_batch", pickle.dumps({**body, "data": told[b"data"]}, 2))
    with pytest.raises((BadField, FileBroken), match=r"filenames is|twice"):
        open_dataset("cifar10", tmp_path)


def test_an_error_shows_little_of_a_large_value() -> None:
    value = shared(20)
    tracemalloc.start()
    try:
        assert len(str(BadField("f", 0, "x", value, "less"))) < 200
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
