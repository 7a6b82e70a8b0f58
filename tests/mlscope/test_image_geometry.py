"""Where a picture lies in an input: as the steps put it, and back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.image_geometry import Side, frame_of, geometry_steps_of, map_to_image
from schemas.manifest import Step, step_of
from services.agent.steps import operator_of

SIDES = st.integers(5, 60)
SIZES = st.tuples(SIDES, SIDES)
RESIZES = st.one_of(
    st.builds(lambda size: {"dimensions": list(size)}, SIZES),
    st.builds(
        lambda size, fit: {"dimensions": list(size), "keep_aspect_ratio": True, "fit": fit},
        SIZES,
        st.sampled_from(["cover", "inside"]),
    ),
    st.builds(lambda most: {"max_dimension": most}, SIDES),
)
CROPS = st.builds(
    lambda ratio, method: {"ratio": ratio, "method": method},
    st.floats(0.2, 1.0),
    st.sampled_from(["center", "top_left"]),
)
PADS = st.builds(
    lambda multiple, method: {"multiple": multiple, "method": method},
    st.integers(1, 40),
    st.sampled_from(["center", "top_left"]),
)
STEPS = st.lists(
    st.one_of(
        st.builds(lambda p: {"resize": {**p, "method": "nearest"}}, RESIZES),
        st.builds(lambda p: {"crop": p}, CROPS),
        st.builds(lambda p: {"pad": p}, PADS),
    ),
    max_size=4,
)


def steps_of(told: list[dict[str, Any]]) -> list[Step]:
    return [Step.model_validate(step_of(each)) for each in told]


def taken(pixels: Any, steps: list[Step]) -> Any:
    """Take a picture through the agent's own steps."""
    for step in steps:
        pixels = operator_of(step, lambda _: ()).apply(pixels)
    return pixels


@given(SIZES, STEPS)
def test_an_input_is_as_large_as_the_steps_make_it(
    size: tuple[int, int], told: list[dict[str, Any]]
) -> None:
    steps = steps_of(told)
    made = taken(np.zeros((*size, 1), np.float32), steps)
    height, width = frame_of(steps, size)
    assert (height.length, width.length) == made.shape[:2]


@given(SIZES, st.tuples(st.integers(1, 3), st.integers(1, 3)), CROPS, PADS)
def test_what_the_steps_make_of_a_picture_is_placed_back_on_it(
    size: tuple[int, int], times: tuple[int, int], crop: dict[str, Any], pad: dict[str, Any]
) -> None:
    grown = [size[0] * times[0], size[1] * times[1]]
    told = [{"resize": {"dimensions": grown, "method": "nearest"}}, {"crop": crop}, {"pad": pad}]
    steps = steps_of(told)
    numbers = 1 + np.arange(size[0] * size[1], dtype=np.float32).reshape(*size, 1)
    made = taken(numbers, steps)
    back, seen = map_to_image(made[..., 0], frame_of(steps, size), size)
    # A pixel whose centre was cut off is not seen; the border's zeros are nobody's.
    assert np.array_equal(back[seen & (back > 0)], numbers[..., 0][seen & (back > 0)])
    inner = ~np.isin(numbers[..., 0], made)
    assert not (seen & inner & (back > 0)).any()
    assert set(np.unique(made)) - {0.0} >= set(back[seen]) - {0.0}


def test_by_hand_a_centre_crop_of_a_picture_scaled_to_half() -> None:
    steps = steps_of([{"resize": {"dimensions": [4, 8]}}, {"crop": {"dimensions": [4, 4]}}])
    height, width = frame_of(steps, (8, 16))
    assert width == Side(4, width.scale, width.offset)
    assert (float(width.scale), float(width.offset)) == (0.5, -2.0)
    assert width.sources(16, 4).tolist() == [-2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert width.to_image(np.array([0.0, 4.0])).tolist() == [4.0, 12.0]
    assert height.sources(8, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_by_hand_a_letter_box() -> None:
    fit = {"dimensions": [100, 100], "keep_aspect_ratio": True, "fit": "inside"}
    steps = steps_of([{"resize": fit}, {"pad": {"dimensions": [100, 100]}}])
    height, width = frame_of(steps, (50, 200))
    assert (float(height.scale), float(height.offset)) == (0.5, 37.0)
    assert (float(width.scale), float(width.offset)) == (0.5, 0.0)


@pytest.mark.parametrize("answered", [1, 3, 7, 20, 33])
def test_an_answer_of_another_size_is_stretched_by_nearest_neighbour(answered: int) -> None:
    from PIL import Image

    pixels = np.arange(answered * answered, dtype=np.int32).reshape(answered, answered)
    grown = np.asarray(Image.fromarray(pixels).resize((20, 20), Image.Resampling.NEAREST))
    back, seen = map_to_image(pixels, frame_of((), (20, 20)), (20, 20))
    assert seen.all()
    assert np.array_equal(back, grown)


def test_two_inputs_that_show_different_parts_are_not_told() -> None:
    resize = steps_of([{"resize": {"dimensions": [4, 4]}}])
    other = steps_of([{"resize": {"dimensions": [8, 8]}}])
    text = steps_of([{"cast": {"element_type": "float32"}}])
    assert geometry_steps_of([text, resize, resize]) == tuple(resize)
    assert geometry_steps_of([text]) == ()
    assert geometry_steps_of([resize, other]) is None
