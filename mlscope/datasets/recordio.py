"""MXNet RecordIO files of packed samples, read without MXNet.

A part is the magic number, a word (upper 3 bits: 0 whole, 1 first, 2 middle, 3 last; lower 29 bits:
length) and the data, padded to 4 bytes; little-endian. Data that holds the magic number at a
multiple of 4 is cut there, and the number left out (dmlc-core, recordio.h). A record begins with
the header IfQQ: flag, label, id, id2; with a flag above 0 so many float32 follow as the labels.
"""

import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mlscope.datasets.dataset import Dataset, inside, text_lines
from mlscope.datasets.errors import BadField, BadRecord, LayoutMissing
from mlscope.datasets.folder import paths_below
from mlscope.datasets.labels import classes_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Truth, Where

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_HEAD = struct.Struct("<II")
_HEADER = struct.Struct("<IfQQ")
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


def recordio(place: Place) -> Dataset:
    """Pictures and labels of a .rec file; its .idx, if there is one beside it, says their order.

    `label_offset` is added to the class. A record of several labels (`labels: values`) has them
    as numbers. `class_names` and `classes` as for folders. Raises DatasetError.
    """
    options = place.options
    offset = options.whole("label_offset", 0, least=-(1 << 31))
    is_class = options.choice("labels", ("class", "values"), "class") == "class"
    classes = classes_of(place)
    path = _file(place)
    shown, starts = place.shown(path), _starts(path, place)

    def read(index: int) -> tuple[NDArray[np.float64], bytes]:
        return unpacked(record_at(path, starts[index], shown, index), shown, index)

    def truth(index: int) -> Truth:
        labels, _ = read(index)
        name = f"{shown}:{index}"
        if not is_class:
            return Truth(name, values=labels)
        return _class(labels, offset, classes, name, Where(shown, index))

    return Dataset(len(starts), lambda index: read(index)[1], truth, classes.names)


def unpacked(body: bytes, file: str, record: int) -> tuple[NDArray[np.float64], bytes]:
    """Return the labels and the data of a packed record. Raises BadRecord."""
    if len(body) < _HEADER.size:
        raise BadRecord(file, record, f"{len(body)} bytes are no header of {_HEADER.size}")
    flag, label, _, _ = _HEADER.unpack_from(body)
    if not flag:
        return np.array([label], np.float64), body[_HEADER.size :]
    end = _HEADER.size + 4 * flag
    if end > len(body):
        raise BadRecord(file, record, f"its header says {flag} labels, which it has no room for")
    return np.frombuffer(body[_HEADER.size : end], "<f4").astype(np.float64), body[end:]


def record_at(path: Path, start: int, shown: str, number: int) -> bytes:
    """Return the record that begins there. Raises BadRecord."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            parts = [body for _, body in _parts(file, shown, number)]
    except OSError as error:
        raise BadRecord(shown, number, error.strerror or str(error)) from error
    return _MAGIC_BYTES.join(parts)


def _parts(file: BinaryIO, shown: str, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of one record. Raises BadRecord."""
    expected: tuple[int, ...] = (_WHOLE, _FIRST)
    while expected:
        kind, length = _head(file, shown, number, expected)
        body = file.read(length)
        if len(body) < length:
            raise BadRecord(shown, number, f"cut short: {len(body)} of {length} bytes")
        file.seek(-length % 4, os.SEEK_CUR)
        yield kind, body
        expected = (_MIDDLE, _LAST) if kind in (_FIRST, _MIDDLE) else ()


def _head(file: BinaryIO, shown: str, number: int, expected: Sequence[int]) -> tuple[int, int]:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise BadRecord(shown, number, "cut short in its head")
    magic, word = _HEAD.unpack(head)
    if magic != MAGIC:
        raise BadRecord(shown, number, f"begins with {magic:08x}, not with {MAGIC:08x}")
    kind = word >> _LENGTH_BITS
    if kind not in expected:
        raise BadRecord(shown, number, f"a part of kind {kind}, expected one of {list(expected)}")
    return kind, word & ((1 << _LENGTH_BITS) - 1)


def _starts(path: Path, place: Place) -> Sequence[int]:
    index = inside(place.folder, path.with_suffix(".idx"))
    if index.is_file():
        return _indexed(index, path, place)
    return array("Q", _walked(path, place.shown(path)))


def _indexed(index: Path, path: Path, place: Place) -> Sequence[int]:
    starts, size = array("Q"), path.stat().st_size
    for number, line in enumerate(text_lines(index, place.path), 1):
        wrong = partial(BadField, place.shown(index), f"line {number}", "offset")
        words = line.split()
        if len(words) != 2 or not words[1].isdigit():
            raise wrong(line, "a key and an offset")
        if int(words[1]) >= size:
            raise wrong(int(words[1]), f"below {size}, the size of {path.name}")
        starts.append(int(words[1]))
    return starts


def _walked(path: Path, shown: str) -> Iterator[int]:
    """Yield where each record begins, from the heads alone. Raises BadRecord."""
    size, number, at = path.stat().st_size, 0, 0
    with path.open("rb") as file:
        while at < size:
            yield at
            expected: Sequence[int] = (_WHOLE, _FIRST)
            while expected:
                file.seek(at)
                kind, length = _head(file, shown, number, expected)
                if at + _HEAD.size + length > size:
                    raise BadRecord(shown, number, f"cut short: {length} bytes do not fit")
                at += _HEAD.size + length + -length % 4
                expected = (_MIDDLE, _LAST) if kind in (_FIRST, _MIDDLE) else ()
            number += 1


def _class(
    labels: NDArray[np.float64], offset: int, classes: Classes, name: str, where: Where
) -> Truth:
    if labels.size != 1 or not float(labels[0]).is_integer():
        allowed = "one whole number (`labels: values` takes others)"
        raise BadField(*where, labels.tolist(), allowed)
    return classes.truth(int(labels[0]) + offset, name, where)


def _file(place: Place) -> Path:
    if place.path.is_file():
        return place.path
    found = list(paths_below(place.path, (".rec",)))
    if len(found) != 1:
        raise LayoutMissing(place.path.name, f"has {len(found)} .rec files", place.options.reader)
    return found[0]
