"""The wire format: what is written is read back, broken messages are refused."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.protobuf import (
    BYTES,
    FIXED64,
    VARINT,
    bytes_field,
    fields,
    fixed64_field,
    messages,
    packed_varints,
    signed,
    varint,
    varint_field,
)


@given(value=st.integers(0, (1 << 64) - 1))
def test_numbers_are_varints(value: int) -> None:
    encoded = varint(value)
    assert sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(encoded)) == value
    assert list(packed_varints(memoryview(encoded * 2))) == [value, value]


@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_negative_numbers_are_64_bits(value: int) -> None:
    ((number, wire, written),) = fields(memoryview(varint_field(3, value)))
    assert isinstance(written, int)
    assert (number, wire, signed(written)) == (3, VARINT, value)


def test_fields_are_read_as_written() -> None:
    double = struct.pack("<d", 1.5)
    body = memoryview(bytes_field(20, "é") + fixed64_field(2, double) + bytes_field(20, b"\0"))
    assert [(number, wire) for number, wire, _ in fields(body)] == [
        (20, BYTES),
        (2, FIXED64),
        (20, BYTES),
    ]
    assert [bytes(value) for _, _, value in fields(body)] == ["é".encode(), double, b"\0"]
    assert [bytes(value) for value in messages(body, 20)] == ["é".encode(), b"\0"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x0a\x05ab", "field 1 ends 3 bytes past its end"),
        (b"\x0a", "cut short"),
        (b"\x0b", "wire type 3 at byte 1"),
        (b"\xff" * 11, "no end"),
    ],
)
def test_broken_messages_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(fields(memoryview(body)))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert all(number >= 0 for number, _, _ in fields(memoryview(body)))
