"""tf.train.Example as bytes written by hand; TensorFlow's own are in test_tfrecord."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.datasets.tf_example import example_of


def field(number: int, body: bytes) -> bytes:
    """Return a field of bytes shorter than 128."""
    return bytes((number << 3 | 2, len(body))) + body


def example(feature: bytes, name: bytes = b"x") -> bytes:
    """Return an Example of one feature."""
    return field(1, field(1, field(1, name) + field(2, feature)))


def test_numbers_packed_and_not() -> None:
    packed = example(field(3, field(1, b"\x01\x96\x01" + b"\xff" * 9 + b"\x01")))
    loose = example(field(3, b"\x08\x05\x08\x07"))
    assert list(example_of(packed)["x"]) == [1, 150, -1]
    assert list(example_of(loose)["x"]) == [5, 7]


def test_floats_packed_and_not() -> None:
    one = b"\x00\x00\x80\x3f"
    assert list(example_of(example(field(2, field(1, one * 2))))["x"]) == [1.0, 1.0]
    assert list(example_of(example(field(2, b"\x0d" + one)))["x"]) == [1.0]


def test_what_is_not_known_is_passed_over() -> None:
    strange = b"\x48\x01" + b"\x51" + bytes(8) + field(15, b"?")
    assert example_of(strange + example(field(1, field(1, b"text"))))["x"] == (b"text",)


@pytest.mark.parametrize(
    "body",
    [b"\x0a\x05ab", b"\x0a", b"\x0b", b"\xff" * 11, example(field(2, field(1, b"123")))],
    ids=["past its end", "cut", "a group", "no end", "half a float"],
)
def test_what_is_no_example(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"past its end|cut short|wire type|no end|bytes long"):
        example_of(body)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_example_or_no_example(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(example_of(body), dict)
