"""resize: pixels to another size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.agent.steps.applying import apply

SIDES = st.integers(1, 40)


@pytest.mark.parametrize("dimensions", [5, [5, 5], [3, 5, 5]])
def test_sizes_come_in_three_forms(dimensions: Any) -> None:
    assert apply("resize", np.zeros((4, 6, 3), np.uint8), dimensions=dimensions).shape == (5, 5, 3)


@given(SIDES, SIDES, SIDES, SIDES)
def test_keeping_the_ratio_covers_the_wanted_size_and_no_more(
    height: int, width: int, wanted_height: int, wanted_width: int
) -> None:
    pixels = np.zeros((height, width, 3), np.uint8)
    wanted = [wanted_height, wanted_width]
    kept = apply("resize", pixels, dimensions=wanted, keep_aspect_ratio=True)
    assert kept.shape[0] >= wanted_height
    assert kept.shape[1] >= wanted_width
    assert kept.shape[0] == wanted_height or kept.shape[1] == wanted_width


def test_nearest_invents_no_value() -> None:
    pixels = np.array([[[0] * 3, [200] * 3]], np.uint8)
    grown = apply("resize", pixels, dimensions=[2, 8], method="nearest")
    assert set(np.unique(grown)) == {0, 200}


def test_bilinear_goes_in_between() -> None:
    pixels = np.array([[[0] * 3, [200] * 3]], np.uint8)
    grown = apply("resize", pixels, dimensions=[1, 8])
    assert np.all(np.diff(grown[0, :, 0].astype(int)) >= 0)
    assert len(np.unique(grown)) > 2
