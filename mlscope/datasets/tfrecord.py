"""TFRecord files of tf.train.Example, read without TensorFlow.

A record is its length (uint64), that number's masked CRC-32C (uint32), the data, and the data's
masked CRC-32C (uint32), little-endian. Lengths are checked when a file is opened, which reads no
data; data when a sample is read.
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

from mlscope.datasets.crc32c import crc32c, masked
from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import BadField, BadOption, BadRecord, LayoutMissing
from mlscope.datasets.folder import paths_below
from mlscope.datasets.labels import classes_of
from mlscope.datasets.options import Options
from mlscope.datasets.place import Place
from mlscope.datasets.protobuf import Feature, example_of
from mlscope.datasets.truth import Classes, Truth, Where

_HEAD = struct.Struct("<QI")
_FOOT = struct.Struct("<I")
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
"""The end of a shard's name as TensorFlow's own scripts write it, without any ending."""
_ENDINGS = (".tfrecord", ".tfrecords", ".tfrec", ".records")

Example = Mapping[str, Feature]


def tfrecord(place: Place) -> Dataset:
    """Read a file's records, or those of a folder's files *.tfrecord* in the order of their names.

    `image` names the feature that is a file's bytes (image/encoded), `label` that of the class
    (image/class/label; '' for none), to which `label_offset` is added (-1 where 0 is a background
    class). `features` by input, each {feature, shape, element_type}, make tensors, in which NaN is
    an error unless `allow_nan`; `raw: true` takes the record's own bytes. `class_names` and
    `classes` as for folders. Raises DatasetError.
    """
    options = place.options
    is_raw = options.flag("raw", default=False)
    label = options.text("label", "" if is_raw else "image/class/label")
    offset = options.whole("label_offset", 0, least=-(1 << 31))
    classes = classes_of(place)
    fields = _fields(options)
    paths = _shards(place)
    index = Shards(place, paths)

    def example(number: int) -> tuple[str, int, Example]:
        file, record, body = index.read(number)
        try:
            return file, record, example_of(body)
        except ValueError as error:
            raise BadRecord(file, record, f"no tf.train.Example: {error}") from error

    def sample(number: int) -> Any:
        if is_raw:
            return index.read(number)[2]
        file, record, found = example(number)
        parts = {each.input: each.of(found, file, record) for each in fields}
        return parts if len(parts) > 1 or "" not in parts else parts[""]

    def truth(number: int) -> Truth | None:
        if not label:
            return None
        file, record, found = example(number)
        return _truth(found.get(label), label, offset, classes, (file, record))

    return Dataset(len(index), sample, truth, classes.names)


class Shards:
    """Where the records of several files begin: twelve bytes in memory for each."""

    def __init__(self, place: Place, paths: Sequence[Path]) -> None:
        """Walk through the files' lengths. Raises BadRecord for one that is cut or altered."""
        self._place, self._paths = place, paths
        self._owners, self._numbers, self._starts = array("I"), array("Q"), array("Q")
        for owner, path in enumerate(paths):
            for number, start in enumerate(starts_in(path, place.shown(path))):
                self._owners.append(owner)
                self._numbers.append(number)
                self._starts.append(start)

    def __len__(self) -> int:
        return len(self._starts)

    def read(self, index: int) -> tuple[str, int, bytes]:
        """Return the file, the number in it and the checked data of a record. Raises BadRecord."""
        path, number = self._paths[self._owners[index]], self._numbers[index]
        shown = self._place.shown(path)
        try:
            with path.open("rb") as file:
                file.seek(self._starts[index])
                length, _ = _HEAD.unpack(file.read(_HEAD.size))
                body = file.read(length)
                foot = file.read(_FOOT.size)
        except (OSError, struct.error) as error:
            raise BadRecord(shown, number, str(error)) from error
        if len(body) < length or len(foot) < _FOOT.size:
            raise BadRecord(shown, number, f"cut short: {len(body)} of {length} bytes")
        (stored,) = _FOOT.unpack(foot)
        found = masked(crc32c(body))
        if found != stored:
            raise BadRecord(shown, number, f"data has CRC {found:08x}, stored is {stored:08x}")
        return shown, number, body


def starts_in(path: Path, shown: str) -> Iterator[int]:
    """Yield where each record begins. Raises BadRecord where the file is cut or a length altered.

    What a damaged length hides can't be found again, so the file as a whole is refused.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            at = number = 0
            while at < size:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    raise BadRecord(shown, number, "cut short in its length")
                length, stored = _HEAD.unpack(head)
                found = masked(crc32c(head[:8]))
                if found != stored:
                    reason = f"length has CRC {found:08x}, stored is {stored:08x}"
                    raise BadRecord(shown, number, reason)
                end = at + _HEAD.size + length + _FOOT.size
                if end > size:
                    raise BadRecord(shown, number, f"cut short: ends {end - size} bytes too early")
                yield at
                file.seek(end, os.SEEK_SET)
                at, number = end, number + 1
    except OSError as error:
        raise BadRecord(shown, 0, error.strerror or str(error)) from error


@dataclass(frozen=True, slots=True)
class _Field:
    """Which feature becomes which input: bytes as they are, numbers as an array."""

    input: str
    feature: str
    shape: tuple[int, ...] = ()
    kind: "np.dtype[Any] | None" = None
    allow_nan: bool = False

    def of(self, example: Example, file: str, record: int) -> Any:
        """Return the input's value. Raises BadField."""
        found = example.get(self.feature)
        wrong = partial(BadField, file, record, self.feature)
        if found is None:
            raise wrong("missing", f"one of {', '.join(sorted(example)) or 'none'}")
        if isinstance(found, tuple):
            if len(found) != 1:
                raise wrong(f"{len(found)} texts of bytes", "one")
            if self.kind is None:
                return found[0]
            if len(found[0]) % self.kind.itemsize:
                raise wrong(f"{len(found[0])} bytes", f"a whole number of {self.kind}")
            array = np.frombuffer(found[0], self.kind)
        else:
            array = found if self.kind is None else found.astype(self.kind)
        if array.dtype.kind == "f" and not self.allow_nan and np.isnan(array).any():
            raise wrong("NaN", "numbers (or `allow_nan`)")
        if not self.shape:
            return array
        if array.size != math.prod(self.shape):
            raise wrong(f"{array.size} numbers", f"{math.prod(self.shape)} for {list(self.shape)}")
        return array.reshape(self.shape)


def _fields(options: Options) -> list[_Field]:
    image, several = options.text("image"), options.below("features")
    allow_nan = options.flag("allow_nan", default=False)
    if not several:
        return [_Field("", image or "image/encoded")]
    if image:
        raise BadOption(options.reader, "image", image, "left out where features are given")
    found = []
    for name, said in several.items():
        if not isinstance(said, Mapping):
            raise BadOption(options.reader, f"features.{name}", said, "a map with feature")
        below = Options(options.reader, said)
        feature, shape = below.text("feature", str(name)), below.shape("shape")
        kind = below.element_type("element_type", "float32") if "element_type" in said else None
        below.done()
        given = str(name) if len(several) > 1 else ""
        found.append(_Field(given, feature, shape, kind, allow_nan))
    return found


def _truth(
    found: Feature | None, label: str, offset: int, classes: Classes, where: tuple[str, int]
) -> Truth:
    (file, record), name = where, f"{where[0]}:{where[1]}"
    if isinstance(found, tuple) and len(found) == 1:
        text = found[0].decode("utf-8", "replace")
        return classes.named(text, name, Where(file, record, label))
    if found is None or isinstance(found, tuple) or found.size != 1:
        raise BadField(file, record, label, "missing" if found is None else found, "one label")
    return classes.truth(int(found[0]) + offset, name, Where(file, record, label))


def _shards(place: Place) -> list[Path]:
    if place.path.is_file():
        return [place.path]
    found = [
        path
        for path in paths_below(place.path, ())
        if path.suffix in _ENDINGS
        or any(f"{each}-" in path.name for each in _ENDINGS)
        or _SHARD.search(path.name)
    ]
    if not found:
        raise LayoutMissing(place.path.name, "has no *.tfrecord*", place.options.reader)
    return found
