"""CRC-32C: the standard's own values, and lanes that give what one gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.datasets.crc32c import _one_lane, crc32c, masked

VECTORS = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
]
"""RFC 3720, appendix B.4."""


@pytest.mark.parametrize(("body", "crc"), VECTORS)
def test_known_values(body: bytes, crc: int) -> None:
    assert crc32c(body) == crc


@given(st.binary(min_size=1, max_size=80), st.integers(0, 5000))
def test_lanes_give_what_one_gives(pattern: bytes, length: int) -> None:
    body = (pattern * (length // len(pattern) + 1))[:length]
    assert crc32c(body) == _one_lane(body, 0xFFFFFFFF) ^ 0xFFFFFFFF


def test_the_mask_of_a_sum() -> None:
    assert masked(0) == 0xA282EAD8
    assert masked(0xFFFFFFFF) == 0xA282EAD7
