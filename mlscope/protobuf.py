"""Protocol Buffers' wire format, read and written field by field without a library. Pure.

For formats of a few fields (tf.train.Example, ONNX, Perfetto), where a generated module would be
one more dependency. https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
"""Wire types: groups (3 and 4) are deprecated and not read."""

_MAX_VARINT_BYTES = 10
_MASK_64 = (1 << 64) - 1


def fields(body: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield field number, wire type and value: an unsigned number of a varint, bytes of others.

    Raises ValueError where the bytes are not a message.
    """
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _read_varint(body, at)
            yield number, wire, value
            continue
        if wire not in (BYTES, FIXED64, FIXED32):
            raise ValueError(f"wire type {wire} at byte {at}")
        length = 8 if wire == FIXED64 else 4
        if wire == BYTES:
            length, at = _read_varint(body, at)
        if at + length > len(body):
            raise ValueError(f"field {number} ends {at + length - len(body)} bytes past its end")
        yield number, wire, body[at : at + length]
        at += length


def messages(body: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the values of a field of bytes: messages, texts or packed numbers.

    Raises ValueError where the bytes are not a message.
    """
    for field_number, wire, value in fields(body):
        if field_number == number and wire == BYTES and isinstance(value, memoryview):
            yield value


def packed_varints(body: memoryview) -> Iterator[int]:
    """Yield the unsigned numbers of a packed field. Raises ValueError where one is cut short."""
    at = 0
    while at < len(body):
        value, at = _read_varint(body, at)
        yield value


def signed(value: int) -> int:
    """Return an unsigned 64-bit number as the signed one (int64) with the same bits."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """Return a number as a varint: seven bits a byte, low ones first; negative ones as 64 bits."""
    value &= _MASK_64
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint_field(number: int, value: int) -> bytes:
    """Return a field that holds a whole number (int, enum or bool)."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """Return a field that holds bytes, a text (as UTF-8) or an encoded message."""
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(body)) + body


def fixed64_field(number: int, value: bytes) -> bytes:
    """Return a field of eight bytes, little-endian (fixed64 or double)."""
    return varint(number << 3 | FIXED64) + value


def _read_varint(body: memoryview, at: int) -> tuple[int, int]:
    """Return the varint at a byte, cut to 64 bits, and the byte behind it. Raises ValueError."""
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        if at + place >= len(body):
            raise ValueError("a number is cut short")
        byte = body[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & _MASK_64, at + place + 1
    raise ValueError(f"a number at byte {at} has no end")
