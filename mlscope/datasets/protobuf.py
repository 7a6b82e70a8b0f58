"""tf.train.Example, read without TensorFlow: as much of Protocol Buffers as it takes. Pure.

Example { Features features = 1 }; Features { map<string, Feature> feature = 1 };
Feature { oneof: BytesList bytes_list = 1, FloatList float_list = 2, Int64List int64_list = 3 };
each list { repeated value = 1 }, numbers packed or not.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Feature = tuple[bytes, ...] | NDArray[np.float32] | NDArray[np.int64]

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def example_of(body: bytes) -> Mapping[str, Feature]:
    """Return the features of an Example by name. Raises ValueError, which says what is wrong."""
    features: dict[str, Feature] = {}
    for number, wire, value in _fields(memoryview(body)):
        if number == 1 and wire == _BYTES:
            features |= _features(value)
    return features


def _features(body: memoryview) -> Iterator[tuple[str, Feature]]:
    for number, wire, entry in _fields(body):
        if number != 1 or wire != _BYTES:
            continue
        name, feature = "", memoryview(b"")
        for key, kind, value in _fields(entry):
            if key == 1 and kind == _BYTES:
                name = str(value, "utf-8")
            elif key == 2 and kind == _BYTES:
                feature = value
        yield name, _feature(feature)


def _feature(body: memoryview) -> Feature:
    found: Feature = ()
    for number, wire, value in _fields(body):
        if wire != _BYTES:
            continue
        if number == 1:
            found = tuple(bytes(each) for key, _, each in _fields(value) if key == 1)
        elif number == 2:
            found = _floats(value)
        elif number == 3:
            found = np.array(list(_whole(value)), np.int64)
    return found


def _floats(body: memoryview) -> NDArray[np.float32]:
    parts = [value for key, wire, value in _fields(body) if key == 1 and wire in (_BYTES, _FOUR)]
    packed = b"".join(parts)
    if len(packed) % 4:
        raise ValueError(f"a list of floats is {len(packed)} bytes long")
    return np.frombuffer(packed, "<f4").astype(np.float32)


def _whole(body: memoryview) -> Iterator[int]:
    for key, wire, value in _fields(body):
        if key != 1:
            continue
        if wire == _VARINT:
            yield _signed(int.from_bytes(value, "little"))
        at = 0
        while wire == _BYTES and at < len(value):
            number, at = _varint(value, at)
            yield _signed(number)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _fields(body: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield field number, wire type and value; a varint as its eight bytes, little-endian."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        wire = tag & 7
        if wire == _VARINT:
            number, at = _varint(body, at)
            yield tag >> 3, wire, memoryview(number.to_bytes(8, "little"))
            continue
        if wire == _BYTES:
            length, at = _varint(body, at)
        elif wire in (_EIGHT, _FOUR):
            length = 8 if wire == _EIGHT else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + length > len(body):
            raise ValueError(f"field {tag >> 3} ends {at + length - len(body)} bytes past its end")
        yield tag >> 3, wire, body[at : at + length]
        at += length


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for place in range(_MOST_VARINT_BYTES):
        if at + place >= len(body):
            raise ValueError("a number is cut short")
        byte = body[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at + place + 1
    raise ValueError(f"a number at byte {at} has no end")
