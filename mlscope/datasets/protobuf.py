"""tf.train.Example, read without TensorFlow: as much of Protocol Buffers as it takes. Pure.

`fields` and `signed` serve readers of other messages, too.

Example { Features features = 1 }; Features { map<string, Feature> feature = 1 };
Feature { oneof: BytesList bytes_list = 1, FloatList float_list = 2, Int64List int64_list = 3 };
each list { repeated value = 1 }, numbers packed or not.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Feature = tuple[bytes, ...] | NDArray[np.float32] | NDArray[np.int64]

VARINT, EIGHT, BYTES, _FOUR = 0, 1, 2, 5
"""Wire types."""

_MOST_VARINT_BYTES = 10


def example_of(body: bytes) -> Mapping[str, Feature]:
    """Return the features of an Example by name. Raises ValueError, which says what is wrong."""
    features: dict[str, Feature] = {}
    for number, wire, value in fields(memoryview(body)):
        if number == 1 and wire == BYTES:
            features |= _features(value)
    return features


def _features(body: memoryview) -> Iterator[tuple[str, Feature]]:
    for number, wire, entry in fields(body):
        if number != 1 or wire != BYTES:
            continue
        name, feature = "", memoryview(b"")
        for key, kind, value in fields(entry):
            if key == 1 and kind == BYTES:
                name = str(value, "utf-8")
            elif key == 2 and kind == BYTES:
                feature = value
        yield name, _feature(feature)


def _feature(body: memoryview) -> Feature:
    found: Feature = ()
    for number, wire, value in fields(body):
        if wire != BYTES:
            continue
        if number == 1:
            found = tuple(bytes(each) for key, _, each in fields(value) if key == 1)
        elif number == 2:
            found = _floats(value)
        elif number == 3:
            found = np.array(list(_whole(value)), np.int64)
    return found


def _floats(body: memoryview) -> NDArray[np.float32]:
    parts = [value for key, wire, value in fields(body) if key == 1 and wire in (BYTES, _FOUR)]
    packed = b"".join(parts)
    if len(packed) % 4:
        raise ValueError(f"a list of floats is {len(packed)} bytes long")
    return np.frombuffer(packed, "<f4").astype(np.float32)


def _whole(body: memoryview) -> Iterator[int]:
    for key, wire, value in fields(body):
        if key != 1:
            continue
        if wire == VARINT:
            yield signed(int.from_bytes(value, "little"))
        at = 0
        while wire == BYTES and at < len(value):
            number, at = _varint(value, at)
            yield signed(number)


def signed(number: int) -> int:
    """Return 64 bits as the signed number that they are."""
    return number - (1 << 64) if number >> 63 else number


def fields(body: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield field number, wire type and value; a varint as its eight bytes, little-endian.

    Raises ValueError for what is no message.
    """
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        wire = tag & 7
        if wire == VARINT:
            number, at = _varint(body, at)
            yield tag >> 3, wire, memoryview(number.to_bytes(8, "little"))
            continue
        if wire == BYTES:
            length, at = _varint(body, at)
        elif wire in (EIGHT, _FOUR):
            length = 8 if wire == EIGHT else 4
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
