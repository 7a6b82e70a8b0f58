"""Bootstrap intervals of numbers over images that are no mean of the images. Pure."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mlscope.statistics import Interval

SEED = 1
CONFIDENCE = 0.95
METHOD = "percentile bootstrap of images"
LEAST = 2
"""Fewest images that can be resampled."""

NumbersOfDraw = Callable[[NDArray[np.int64]], Sequence[float]]
"""Returns the numbers of a draw from how often it has each image; NaN for an undefined number."""


def image_interval(numbers_of: NumbersOfDraw, images: int, draws: int) -> list[Interval] | None:
    """Return an interval for each number, from the 2.5th to the 97.5th percentile of the draws.

    The seeded percentile bootstrap (Efron 1979): each of the `draws` takes as many images as there
    are, with repeats, and `numbers_of` returns its numbers. A draw that leaves a number undefined
    is left out of that number's interval. None with fewer than two `images`.
    """
    if images < LEAST:
        return None
    random = np.random.default_rng(SEED)
    rows = [
        numbers_of(np.bincount(random.integers(0, images, images), minlength=images))
        for _ in range(draws)
    ]
    tail = (1.0 - CONFIDENCE) / 2.0
    intervals = []
    for column in zip(*rows, strict=True):
        defined = [value for value in column if not math.isnan(value)]
        low, high = np.quantile(defined, [tail, 1.0 - tail]) if defined else (None, None)
        ends = [None if end is None else float(end) for end in (low, high)]
        intervals.append(Interval(ends[0], ends[1], CONFIDENCE, METHOD))
    return intervals
