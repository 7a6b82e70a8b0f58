"""Outlines become the masks that pycocotools draws of them."""

from typing import Any

import numpy as np
import pytest
from pycocotools import mask as reference

from mlscope.accuracy import AccuracyError, decompressed, mask_of_outlines
from mlscope.accuracy.shapes import pixels_of

RANDOM = np.random.default_rng(5)


def _expected(outlines: list[list[float]], height: int, width: int) -> Any:
    drawn = reference.merge(reference.frPyObjects(outlines, height, width))
    return pixels_of(decompressed(drawn["counts"].decode(), height, width))


def _drawn(points: int, low: float, high: float) -> list[float]:
    return [float(each) for each in RANDOM.uniform(low, high, 2 * points).round(2)]


@pytest.mark.parametrize("points", [3, 4, 7, 30])
@pytest.mark.parametrize("reach", [(0.0, 40.0), (-9.0, 60.0)], ids=["inside", "beyond"])
def test_outlines_are_drawn_as_by_pycocotools(points: int, reach: tuple[float, float]) -> None:
    for count in (1, 1, 1, 2, 3):
        outlines = [_drawn(points, *reach) for _ in range(count)]
        found = mask_of_outlines(outlines, 37, 45)
        assert np.array_equal(pixels_of(found), _expected(outlines, 37, 45)), outlines


def test_whole_numbers_and_repeated_points_are_drawn_alike() -> None:
    for outline in (
        [1, 2, 4, 2, 4, 6],
        [0, 0, 10, 0, 10, 10, 0, 10],
        [0, 0, 10, 0, 10, 0, 10, 10, 0, 10, 0, 0],
        [5, 5, 5, 5, 5, 5],
    ):
        points = [float(each) for each in outline]
        found = mask_of_outlines([points], 10, 10)
        assert np.array_equal(pixels_of(found), _expected([points], 10, 10)), outline


@pytest.mark.parametrize("odd", [[1, 2], [1, 2, 3, 4, 5], [0, 0, 1e300, 0, 1, 1], [np.nan] * 6])
def test_what_is_no_outline_is_refused(odd: list[float]) -> None:
    for outlines in ([], [odd]):
        with pytest.raises(AccuracyError):
            mask_of_outlines(outlines, 10, 10)
