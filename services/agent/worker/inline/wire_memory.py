"""How much memory a msgpack value takes once it is unpacked, counted without unpacking it. Pure.

A byte can stand for an empty list, of 64 bytes: what an answer needs is not what it measures.
"""

_LIST_BYTES, _SLOT_BYTES = 64, 8
_MAP_BYTES, _ENTRY_BYTES = 64, 104
_NUMBER_BYTES, _TEXT_BYTES, _ARRAY_BYTES = 40, 64, 400

# By the first byte of a value: what it takes, how many bytes follow that are no value of their own,
# how long the length is that follows, and what each unit of that length takes.
_PLAIN = (0, 0, 0, 0)
_KINDS = [_PLAIN] * 256
for _first in range(0x80, 0x90):
    _KINDS[_first] = (_MAP_BYTES + _ENTRY_BYTES * (_first & 15), 0, 0, 0)
for _first in range(0x90, 0xA0):
    _KINDS[_first] = (_LIST_BYTES + _SLOT_BYTES * (_first & 15), 0, 0, 0)
for _first in range(0xA0, 0xC0):
    _KINDS[_first] = (_TEXT_BYTES + (_first & 31), _first & 31, 0, 0)
for _first, _length_bytes in ((0xC4, 1), (0xC5, 2), (0xC6, 4), (0xD9, 1), (0xDA, 2), (0xDB, 4)):
    _KINDS[_first] = (_TEXT_BYTES, 0, _length_bytes, 1)  # binary, text
for _first, _length_bytes in ((0xC7, 1), (0xC8, 2), (0xC9, 4)):
    _KINDS[_first] = (_ARRAY_BYTES, 1, _length_bytes, 1)  # extensions
for _first, _size_bytes in ((0xD4, 1), (0xD5, 2), (0xD6, 4), (0xD7, 8), (0xD8, 16)):
    _KINDS[_first] = (_ARRAY_BYTES, 1 + _size_bytes, 0, 0)
for _first, _size_bytes in (
    (0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8), (0xD0, 1), (0xD1, 2),
    (0xD2, 4), (0xD3, 8),
):  # fmt: skip
    _KINDS[_first] = (_NUMBER_BYTES, _size_bytes, 0, 0)
for _first, _length_bytes, _each_bytes in (
    (0xDC, 2, _SLOT_BYTES), (0xDD, 4, _SLOT_BYTES), (0xDE, 2, _ENTRY_BYTES), (0xDF, 4, _ENTRY_BYTES)
):  # fmt: skip
    _KINDS[_first] = (_LIST_BYTES, 0, _length_bytes, _each_bytes)


def needs_more_than(body: bytes | bytearray, most_bytes: int) -> bool:
    """Tell whether the value in a msgpack `body` takes more than `most_bytes` of memory.

    A text may take four bytes for each of its own. A `body` that is cut counts as it is.
    """
    place, total_bytes, end = 0, 0, len(body)
    while place < end and total_bytes <= most_bytes:
        taken_bytes, skipped, length_bytes, each_bytes = _KINDS[body[place]]
        place += 1
        total_bytes += taken_bytes
        if length_bytes:
            length = int.from_bytes(body[place : place + length_bytes], "big")
            total_bytes += length * each_bytes
            place += length_bytes + (length if each_bytes == 1 else 0)
        place += skipped
    return total_bytes > most_bytes
