"""crop: a window of the pixels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.agent.steps.applying import apply


def test_a_crop_is_central_or_top_left() -> None:
    pixels = np.arange(25, dtype=np.uint8).reshape(5, 5, 1)
    assert apply("crop", pixels, dimensions=1)[0, 0, 0] == 12
    assert apply("crop", pixels, dimensions=1, method="top_left")[0, 0, 0] == 0


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 1.0))
def test_a_ratio_cuts_its_share_of_each_side(height: int, width: int, ratio: float) -> None:
    cut = apply("crop", np.zeros((height, width, 3), np.uint8), ratio=ratio)
    for left, side in ((cut.shape[0], height), (cut.shape[1], width)):
        assert 1 <= left <= side
        assert abs(left - side * ratio) <= 1


@pytest.mark.parametrize(("height", "top"), [(4, 0), (5, 0), (6, 1), (7, 2), (8, 2), (9, 2)])
def test_the_centre_is_torchvision_s(height: int, top: int) -> None:
    # torchvision.transforms.functional.center_crop: int(round((height - crop_height) / 2.0))
    pixels = np.arange(height, dtype=np.uint8).reshape(-1, 1, 1)
    assert apply("crop", pixels, dimensions=[4, 1])[:, 0, 0].tolist() == list(range(top, top + 4))


def test_a_crop_larger_than_the_picture_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="is smaller than the crop"):
        apply("crop", np.zeros((5, 5, 3), np.uint8), dimensions=[6, 5])
