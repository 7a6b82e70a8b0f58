"""CRC-32C (Castagnoli), as TFRecord has it.

Reflected polynomial 0x82F63B78 (RFC 3720, appendix B.4). Python's own loop reads some megabytes a
second only, so a long text is cut into lanes that are summed side by side, four bytes at a time,
and joined by what a sum becomes when zeros follow, which is linear over GF(2).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_START = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_LANE_BYTES = 64
_SHORT = 512
"""Bytes up to which one lane is quicker."""

Sums = NDArray[np.uint32]


def crc32c(body: bytes | memoryview) -> int:
    """Return the CRC-32C of some bytes."""
    if len(body) < _SHORT:
        return _one_lane(bytes(body), _START) ^ _START
    rows = len(body) // _LANE_BYTES
    words = np.frombuffer(body, "<u4", rows * _LANE_BYTES // 4).reshape(rows, -1)
    sums = np.zeros(rows, np.uint32)
    sums[0] = _START
    for column in np.ascontiguousarray(words.T):
        sums = _after_zeros(sums ^ column, 2)
    crc = _joined(sums)
    return _one_lane(bytes(body[rows * _LANE_BYTES :]), crc) ^ _START


def masked(crc: int) -> int:
    """Return a sum as TFRecord stores it: turned right by 15 bits, plus a constant."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _joined(sums: Sums) -> int:
    """Return the sum of all lanes, neighbours joined until one is left."""
    power = _LANE_BYTES.bit_length() - 1
    while len(sums) > 1:
        if len(sums) % 2:
            # A lane of nothing in front: 0 stays 0 whatever follows.
            sums = np.concatenate([np.zeros(1, np.uint32), sums])
        sums = _after_zeros(sums[0::2], power) ^ sums[1::2]
        power += 1
    return int(sums[0])


def _after_zeros(sums: Sums, power: int) -> Sums:
    """Return what sums become when 2^power zero bytes follow."""
    low, high = _halves(power)
    after: Sums = low[sums & np.uint32(0xFFFF)] ^ high[sums >> np.uint32(16)]
    return after


@lru_cache(maxsize=64)
def _halves(power: int) -> tuple[Sums, Sums]:
    """Return what each lower and each upper half of a sum becomes when 2^power zeros follow."""
    low = np.arange(1 << 16, dtype=np.uint32)
    both = np.concatenate([low, low << np.uint32(16)])
    if power == 0:
        both = _table()[both & np.uint32(0xFF)] ^ (both >> np.uint32(8))
    else:
        both = _after_zeros(_after_zeros(both, power - 1), power - 1)
    return both[: 1 << 16], both[1 << 16 :]


def _one_lane(body: bytes, crc: int) -> int:
    table = _numbers()
    for byte in body:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


@lru_cache(maxsize=1)
def _table() -> Sums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


@lru_cache(maxsize=1)
def _numbers() -> tuple[int, ...]:
    return tuple(_table().tolist())
