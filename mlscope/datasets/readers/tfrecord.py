"""TFRecord files of tf.train.Example, read without TensorFlow.

A record is its length (uint64), that number's masked CRC-32C (uint32), the data, and the data's
masked CRC-32C (uint32), little-endian; a masked sum is rotated right by 15 bits plus 0xa282ead8
(tensorflow/core/lib/hash/crc32c.h). Opening a file checks the lengths and reads no data; reading a
sample checks its data.
"""

import math
import os
import re
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import BadField, BadOption, BadRecord, LayoutMissing, PackageNeeded
from mlscope.datasets.labels import classes_of
from mlscope.datasets.options import Options
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.readers.folder import paths_below
from mlscope.datasets.tf_example import Feature, example_of
from mlscope.datasets.truth import Classes, LabelLocation, Truth

_HEAD = struct.Struct("<QI")
_FOOT = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
"""The end of a shard's name as TensorFlow's own scripts write it, without any ending."""
_ENDINGS = (".tfrecord", ".tfrecords", ".tfrec", ".records")

Example = Mapping[str, Feature]


def tfrecord(source: ReaderInput) -> Dataset:
    """Read a file's records, or those of a folder's files *.tfrecord* in the order of their names.

    `image` names the feature with a file's bytes (image/encoded), `label` that with the class
    (image/class/label; '' for none), to which `label_offset` is added (-1 where 0 is a background
    class). `features` by input, each {feature, shape, element_type}, make tensors, in which NaN is
    an error unless `allow_nan`; `raw: true` takes the record's own bytes. `class_names` and
    `classes` as for folders. Raises DatasetError.
    """
    options = source.options
    is_raw = options.flag("raw", default=False)
    label = options.text("label", "" if is_raw else "image/class/label")
    offset = options.integer("label_offset", 0, least=-(1 << 31))
    classes = classes_of(source)
    fields = _input_fields(options)
    records = ShardedRecords(source, _shard_paths(source))

    def read_example(index: int) -> tuple[str, int, Example]:
        file, record, body = records.read(index)
        try:
            return file, record, example_of(body)
        except ValueError as error:
            raise BadRecord(file, record, f"no tf.train.Example: {error}") from error

    def sample(index: int) -> Any:
        if is_raw:
            return records.read(index)[2]
        file, record, example = read_example(index)
        inputs = {field.input: field.value_in(example, file, record) for field in fields}
        return inputs if len(inputs) > 1 or "" not in inputs else inputs[""]

    def truth(index: int) -> Truth | None:
        if not label:
            return None
        file, record, example = read_example(index)
        return _label_truth(example.get(label), offset, classes, LabelLocation(file, record, label))

    return Dataset(len(records), sample, truth, classes.names)


class ShardedRecords:
    """The records of several files, by index. Keeps twelve bytes in memory for each."""

    def __init__(self, source: ReaderInput, paths: Sequence[Path]) -> None:
        """Read the lengths in all files. Raises BadRecord for a file that is cut or altered."""
        self._source, self._paths = source, paths
        self._files, self._numbers, self._starts = array("I"), array("Q"), array("Q")
        for file, path in enumerate(paths):
            for number, start in enumerate(record_starts(path, source.shown(path))):
                self._files.append(file)
                self._numbers.append(number)
                self._starts.append(start)

    def __len__(self) -> int:
        return len(self._starts)

    def read(self, index: int) -> tuple[str, int, bytes]:
        """Return a record's file, its number in it, and its data once checked. Raises BadRecord."""
        path, number = self._paths[self._files[index]], self._numbers[index]
        name = self._source.shown(path)
        try:
            with path.open("rb") as file:
                file.seek(self._starts[index])
                length, _ = _HEAD.unpack(file.read(_HEAD.size))
                body = file.read(length)
                foot = file.read(_FOOT.size)
        except (OSError, struct.error) as error:
            raise BadRecord(name, number, str(error)) from error
        if len(body) < length or len(foot) < _FOOT.size:
            raise BadRecord(name, number, f"cut short: {len(body)} of {length} bytes")
        (stored,) = _FOOT.unpack(foot)
        actual = masked_crc32c(body)
        if actual != stored:
            raise BadRecord(name, number, f"data has CRC {actual:08x}, stored is {stored:08x}")
        return name, number, body


def record_starts(path: Path, name: str) -> Iterator[int]:
    """Yield the offset of each record; `name` is the file's in errors.

    Raises BadRecord where the file is cut or a length altered: the records after a damaged length
    can't be found, so the whole file is refused.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = number = 0
            while start < size:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    raise BadRecord(name, number, "cut short in its length")
                length, stored = _HEAD.unpack(head)
                actual = masked_crc32c(head[:8])
                if actual != stored:
                    reason = f"length has CRC {actual:08x}, stored is {stored:08x}"
                    raise BadRecord(name, number, reason)
                end = start + _HEAD.size + length + _FOOT.size
                if end > size:
                    raise BadRecord(name, number, f"cut short: ends {end - size} bytes too early")
                yield start
                file.seek(end, os.SEEK_SET)
                start, number = end, number + 1
    except OSError as error:
        raise BadRecord(name, 0, error.strerror or str(error)) from error


def masked_crc32c(body: bytes) -> int:
    """Return the CRC-32C of `body` as TFRecord stores it. Raises PackageNeeded without `crc32c`."""
    try:
        from crc32c import crc32c
    except ImportError as error:
        reason = f"{error}; pip install 'mlscope[datasets]'"
        raise PackageNeeded("tfrecord", reason) from error
    crc = crc32c(body)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _InputField:
    """The feature that becomes an input: bytes as they are, numbers as an array."""

    input: str
    feature: str
    shape: tuple[int, ...] = ()
    element_type: "np.dtype[Any] | None" = None
    allow_nan: bool = False

    def value_in(self, example: Example, file: str, record: int) -> Any:
        """Return the input's value in an `example`. Raises BadField, naming `file` and `record`."""
        value = example.get(self.feature)
        bad_field = partial(BadField, file, record, self.feature)
        if value is None:
            raise bad_field("missing", f"one of {', '.join(sorted(example)) or 'none'}")
        if isinstance(value, tuple):
            if len(value) != 1:
                raise bad_field(f"{len(value)} texts of bytes", "one")
            if self.element_type is None:
                return value[0]
            if len(value[0]) % self.element_type.itemsize:
                raise bad_field(f"{len(value[0])} bytes", f"a whole number of {self.element_type}")
            numbers = np.frombuffer(value[0], self.element_type)
        else:
            numbers = value if self.element_type is None else value.astype(self.element_type)
        if numbers.dtype.kind == "f" and not self.allow_nan and np.isnan(numbers).any():
            raise bad_field("NaN", "numbers (or `allow_nan`)")
        if not self.shape:
            return numbers
        if numbers.size != math.prod(self.shape):
            expected = f"{math.prod(self.shape)} for {list(self.shape)}"
            raise bad_field(f"{numbers.size} numbers", expected)
        return numbers.reshape(self.shape)


def _input_fields(options: Options) -> list[_InputField]:
    """Return the fields that the options `image` or `features` name. Raises BadOption."""
    image, features = options.text("image"), options.mapping("features")
    allow_nan = options.flag("allow_nan", default=False)
    if not features:
        return [_InputField("", image or "image/encoded")]
    if image:
        raise BadOption(options.reader, "image", image, "left out where features are given")
    fields = []
    for name, entry in features.items():
        if not isinstance(entry, Mapping):
            raise BadOption(options.reader, f"features.{name}", entry, "a map with feature")
        inner = Options(options.reader, entry)
        feature, shape = inner.text("feature", str(name)), inner.shape("shape")
        kind = inner.element_type("element_type", "float32") if "element_type" in entry else None
        inner.reject_unread()
        input_name = str(name) if len(features) > 1 else ""
        fields.append(_InputField(input_name, feature, shape, kind, allow_nan))
    return fields


def _label_truth(
    value: Feature | None, offset: int, classes: Classes, location: LabelLocation
) -> Truth:
    """Return the truth of a label feature: a class name, or an index to which `offset` is added.

    Raises BadField, which names the `location`, for a value that is no label of `classes`.
    """
    sample = f"{location.file}:{location.record}"
    if isinstance(value, tuple) and len(value) == 1:
        return classes.truth_of_name(value[0].decode("utf-8", "replace"), sample, location)
    if value is None or isinstance(value, tuple) or value.size != 1:
        raise BadField(*location, "missing" if value is None else value, "one label")
    return classes.truth_of_index(int(value[0]) + offset, sample, location)


def _shard_paths(source: ReaderInput) -> list[Path]:
    """Return the dataset's files in the order of their names. Raises LayoutMissing."""
    if source.path.is_file():
        return [source.path]
    paths = [
        path
        for path in paths_below(source.path, ())
        if path.suffix in _ENDINGS
        or any(f"{ending}-" in path.name for ending in _ENDINGS)
        or _SHARD.search(path.name)
    ]
    if not paths:
        raise LayoutMissing(source.path.name, "has no *.tfrecord*", source.options.reader)
    return paths
