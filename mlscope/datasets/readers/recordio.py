"""MXNet RecordIO files of packed samples, read without MXNet.

A part is the magic number, a 32-bit number (upper 3 bits: 0 a complete record, 1 its first, 2 a
middle, 3 its last part; lower 29 bits: length) and the data, padded to 4 bytes; little-endian. Data
that holds the magic number at a multiple of 4 is split there, and the number left out (dmlc-core,
recordio.h). A record begins with the header IfQQ: flag, label, id, id2; with a flag above 0 as many
float32 follow as the labels.
"""

import os
import struct
from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mlscope.datasets.dataset import Dataset, require_below, text_lines
from mlscope.datasets.errors import BadField, BadRecord, LayoutMissing
from mlscope.datasets.labels import classes_of
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.readers.folder import paths_below
from mlscope.datasets.truth import LabelLocation, Truth

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_HEAD = struct.Struct("<II")
_HEADER = struct.Struct("<IfQQ")
_LENGTH_BITS = 29
_COMPLETE, _FIRST, _MIDDLE, _LAST = range(4)


def recordio(source: ReaderInput) -> Dataset:
    """Read pictures and labels of a .rec file, in the order of the .idx file beside it, if any.

    `label_offset` is added to the class. With `labels: values` a record's labels are numbers, not a
    class. `class_names` and `classes` as for folders. Raises DatasetError.
    """
    options = source.options
    offset = options.integer("label_offset", 0, least=-(1 << 31))
    has_class = options.choice("labels", ("class", "values"), "class") == "class"
    classes = classes_of(source)
    path = source.path
    if not path.is_file():
        paths = list(paths_below(path, (".rec",)))
        if len(paths) != 1:
            missing = f"has {len(paths)} .rec files, expected one"
            raise LayoutMissing(path.name, missing, options.reader)
        path = paths[0]
    name = source.shown(path)
    index_path = require_below(source.folder, path.with_suffix(".idx"))
    is_listed = index_path.is_file()
    starts = _listed_starts(index_path, path, source) if is_listed else _scanned_starts(path, name)

    def read(index: int) -> tuple[NDArray[np.float64], bytes]:
        return unpack_record(read_record(path, starts[index], name, index), name, index)

    def truth(index: int) -> Truth:
        labels, _ = read(index)
        sample, location = f"{name}:{index}", LabelLocation(name, index)
        if not has_class:
            return Truth(sample, values=labels)
        if labels.size != 1 or not float(labels[0]).is_integer():
            allowed = "one integer (`labels: values` takes others)"
            raise BadField(*location, labels.tolist(), allowed)
        return classes.truth_of_index(int(labels[0]) + offset, sample, location)

    return Dataset(len(starts), lambda index: read(index)[1], truth, classes.names)


def unpack_record(body: bytes, file: str, record: int) -> tuple[NDArray[np.float64], bytes]:
    """Return the labels and the data of the packed record `body`.

    Raises BadRecord, which names `file` and `record`.
    """
    if len(body) < _HEADER.size:
        raise BadRecord(
            file, record, f"{len(body)} bytes are too few for a header of {_HEADER.size}"
        )
    flag, label, _, _ = _HEADER.unpack_from(body)
    if not flag:
        return np.array([label], np.float64), body[_HEADER.size :]
    end = _HEADER.size + 4 * flag
    if end > len(body):
        raise BadRecord(file, record, f"its header has {flag} labels, more than the record holds")
    return np.frombuffer(body[_HEADER.size : end], "<f4").astype(np.float64), body[end:]


def read_record(path: Path, start: int, name: str, number: int) -> bytes:
    """Return the record that begins at the offset `start` [bytes] of the file at `path`.

    Its parts are joined. Raises BadRecord, which calls the file `name` and the record `number`.
    """
    parts: list[bytes] = []
    expected: tuple[int, ...] = (_COMPLETE, _FIRST)
    try:
        with path.open("rb") as file:
            file.seek(start)
            while expected:
                kind, length = _read_head(file, name, number, expected)
                body = file.read(length)
                if len(body) < length:
                    raise BadRecord(name, number, f"cut short: {len(body)} of {length} bytes")
                file.seek(-length % 4, os.SEEK_CUR)
                parts.append(body)
                expected = (_MIDDLE, _LAST) if kind in (_FIRST, _MIDDLE) else ()
    except OSError as error:
        raise BadRecord(name, number, error.strerror or str(error)) from error
    return _MAGIC_BYTES.join(parts)


def _read_head(file: BinaryIO, name: str, number: int, expected: Sequence[int]) -> tuple[int, int]:
    """Return kind and length of the next part. Raises BadRecord for a kind that is not expected."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise BadRecord(name, number, "cut short in its head")
    magic, kind_and_length = _HEAD.unpack(head)
    if magic != MAGIC:
        raise BadRecord(name, number, f"begins with {magic:08x}, not with {MAGIC:08x}")
    kind = kind_and_length >> _LENGTH_BITS
    if kind not in expected:
        raise BadRecord(name, number, f"a part of kind {kind}, expected one of {list(expected)}")
    return kind, kind_and_length & ((1 << _LENGTH_BITS) - 1)


def _listed_starts(index: Path, path: Path, source: ReaderInput) -> Sequence[int]:
    """Return the offset of each record as the .idx file `index` lists them. Raises BadField."""
    starts, size = array("Q"), path.stat().st_size
    for number, line in enumerate(text_lines(index, source.path), 1):
        bad_offset = partial(BadField, source.shown(index), f"line {number}", "offset")
        cells = line.split()
        if len(cells) != 2 or not cells[1].isdigit():
            raise bad_offset(line, "a key and an offset")
        if int(cells[1]) >= size:
            raise bad_offset(int(cells[1]), f"below {size}, the size of {path.name}")
        starts.append(int(cells[1]))
    return starts


def _scanned_starts(path: Path, name: str) -> Sequence[int]:
    """Return the offset of each record, from the records' heads. Raises BadRecord."""
    starts, size, offset = array("Q"), path.stat().st_size, 0
    expected: Sequence[int] = (_COMPLETE, _FIRST)
    with path.open("rb") as file:
        while offset < size:
            if _COMPLETE in expected:
                starts.append(offset)
            file.seek(offset)
            number = len(starts) - 1
            kind, length = _read_head(file, name, number, expected)
            if offset + _HEAD.size + length > size:
                raise BadRecord(name, number, f"cut short: {length} bytes do not fit")
            offset += _HEAD.size + length + -length % 4
            is_open = kind in (_FIRST, _MIDDLE)
            expected = (_MIDDLE, _LAST) if is_open else (_COMPLETE, _FIRST)
            if is_open and offset >= size:
                raise BadRecord(name, number, "cut short in its head")
    return starts
