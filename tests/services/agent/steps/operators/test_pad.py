"""pad: a border up to a size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.errors import BadParameter
from tests.services.agent.steps.applying import apply

SIDES = st.integers(1, 20)


@given(SIDES, SIDES, st.integers(0, 9), st.integers(0, 9))
def test_a_border_is_numpy_s_and_centred(height: int, width: int, more: int, wider: int) -> None:
    pixels = np.ones((height, width, 3), np.uint8)
    found = apply("pad", pixels, dimensions=[height + more, width + wider], value=7)
    widths = ((more // 2, more - more // 2), (wider // 2, wider - wider // 2), (0, 0))
    assert np.array_equal(found, np.pad(pixels, widths, constant_values=7))
    assert found.dtype == np.uint8


@given(SIDES, SIDES, st.integers(1, 8))
def test_a_multiple_is_the_next_one(height: int, width: int, multiple: int) -> None:
    pixels = np.ones((height, width, 1), np.float32)
    found = apply("pad", pixels, multiple=multiple, method="top_left")
    assert all(0 <= a - b < multiple for a, b in zip(found.shape[:2], (height, width), strict=True))
    assert not any(side % multiple for side in found.shape[:2])
    assert np.array_equal(found[:height, :width], pixels)


def test_what_is_larger_is_no_good() -> None:
    with pytest.raises(ValueError, match=r"\(5, 5\) is larger than the padded size \(4, 9\)"):
        apply("pad", np.ones((5, 5, 3), np.uint8), dimensions=[4, 9])
    with pytest.raises(BadParameter, match="or else multiple"):
        apply("pad", None)
