"""tf.train.Example, read without TensorFlow. Pure.

Example { Features features = 1 }; Features { map<string, Feature> feature = 1 };
Feature { oneof: BytesList bytes_list = 1, FloatList float_list = 2, Int64List int64_list = 3 };
each list { repeated value = 1 }, numbers packed or not.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from mlscope.protobuf import BYTES, FIXED32, fields, messages, packed_varints, signed

Feature = tuple[bytes, ...] | NDArray[np.float32] | NDArray[np.int64]


def example_of(body: bytes) -> Mapping[str, Feature]:
    """Return the features of an Example by name. Raises ValueError, which says what is wrong."""
    features: dict[str, Feature] = {}
    for feature_map in messages(memoryview(body), 1):
        for entry in messages(feature_map, 1):
            names, values = [*messages(entry, 1)], [*messages(entry, 2)]
            name = str(names[-1], "utf-8") if names else ""
            features[name] = _feature(values[-1] if values else memoryview(b""))
    return features


def _feature(body: memoryview) -> Feature:
    feature: Feature = ()
    for number, wire, value in fields(body):
        if wire != BYTES or not isinstance(value, memoryview):
            continue
        match number:
            case 1:
                feature = tuple(map(bytes, messages(value, 1)))
            case 2:
                feature = _floats(value)
            case 3:
                feature = np.array([signed(integer) for integer in _integers(value)], np.int64)
    return feature


def _floats(body: memoryview) -> NDArray[np.float32]:
    parts = [
        value
        for number, wire, value in fields(body)
        if number == 1 and wire in (BYTES, FIXED32) and isinstance(value, memoryview)
    ]
    packed = b"".join(parts)
    if len(packed) % 4:
        raise ValueError(f"a list of floats is {len(packed)} bytes long")
    return np.frombuffer(packed, "<f4").astype(np.float32)


def _integers(body: memoryview) -> Iterator[int]:
    for number, wire, value in fields(body):
        if number == 1 and isinstance(value, int):
            yield value
        if number == 1 and wire == BYTES and isinstance(value, memoryview):
            yield from packed_varints(value)
