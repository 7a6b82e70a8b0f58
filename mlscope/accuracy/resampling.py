"""How sure a number over images is that is no mean of them: images are drawn anew, with repeats."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mlscope.statistics import Interval

SEED = 1
CONFIDENCE = 0.95
METHOD = "percentile bootstrap of images"
LEAST = 2
"""Images below which nothing can be drawn anew."""

Drawn = Callable[[NDArray[np.int64]], Sequence[float]]
"""Numbers of a draw, given how often each image is in it; NaN where one is not defined."""


def image_interval(drawn: Drawn, images: int, draws: int) -> list[Interval] | None:
    """Return an interval for each number: from the 2.5th to the 97.5th percentile of the draws.

    The percentile bootstrap (Efron 1979) with `images` as what is independent, seeded. Draws in
    which a number is not defined are left out of its interval. None with fewer than two images.
    """
    if images < LEAST:
        return None
    random = np.random.default_rng(SEED)
    rows = [
        drawn(np.bincount(random.integers(0, images, images), minlength=images))
        for _ in range(draws)
    ]
    tail = (1.0 - CONFIDENCE) / 2.0
    found = []
    for column in zip(*rows, strict=True):
        defined = [value for value in column if not math.isnan(value)]
        low, high = np.quantile(defined, [tail, 1.0 - tail]) if defined else (None, None)
        ends = [None if end is None else float(end) for end in (low, high)]
        found.append(Interval(ends[0], ends[1], CONFIDENCE, METHOD))
    return found
