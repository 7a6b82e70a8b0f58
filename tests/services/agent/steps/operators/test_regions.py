"""regions: boxes around what is likely, on maps whose regions are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage

from services.agent.steps.touching import touching
from tests.services.agent.steps.applying import apply


@given(arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))))
def test_groups_are_those_of_scipy(mask: np.ndarray) -> None:
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    wanted = sorted(sorted(zip(*np.nonzero(labels == n + 1), strict=True)) for n in range(count))
    found = sorted(sorted(zip(rows, columns, strict=True)) for rows, columns in touching(mask))
    assert found == wanted


@given(arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))))
def test_groups_and_their_pixels_are_ordered_by_rows(mask: np.ndarray) -> None:
    groups = [
        [*zip(rows.tolist(), columns.tolist(), strict=True)] for rows, columns in touching(mask)
    ]
    assert all(pixels == sorted(pixels) for pixels in groups)
    assert groups == sorted(groups)


def a_map(*boxes: tuple[int, int, int, int, float]) -> np.ndarray:
    """Return a map of 40 x 60 with rectangles (x, y, width, height, likelihood)."""
    values = np.zeros((1, 1, 40, 60), np.float32)
    for x, y, width, height, likely in boxes:
        values[0, 0, y : y + height, x : x + width] = likely
    return values


def test_a_box_grows_by_its_area_over_its_perimeter() -> None:
    ((box,),) = apply("regions", a_map((20, 10, 20, 10, 0.9)), unclip=1.5)
    out = 20 * 10 * 1.5 / 60
    assert (box["xmin"], box["ymin"]) == pytest.approx((20 - out, 10 - out))
    assert (box["xmax"], box["ymax"]) == pytest.approx((40 + out, 20 + out))
    assert (box["label"], box["probability"]) == ("text", pytest.approx(0.9))


def test_boxes_are_the_likeliest_first_and_within_the_map() -> None:
    values = a_map((0, 0, 10, 6, 0.6), (40, 30, 20, 10, 0.8))
    (found,) = apply("regions", values)
    assert [round(box["probability"], 2) for box in found] == [0.8, 0.6]
    assert min(box["xmin"] for box in found) == 0.0
    assert (found[0]["xmax"], found[0]["ymax"]) == (60, 40)


def test_what_is_small_or_unlikely_is_left_out() -> None:
    values = a_map((0, 0, 10, 3, 0.9), (20, 0, 10, 6, 0.4), (40, 0, 10, 6, 0.2))
    assert apply("regions", values) == [[]]
    assert len(apply("regions", values, score=0.35)[0]) == 1


def test_no_map_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a map of likelihoods"):
        apply("regions", np.zeros((1, 3, 8, 8), np.float32))
