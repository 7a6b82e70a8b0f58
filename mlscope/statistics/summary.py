"""Summaries of values: the trimmed mean of the papers, and percentiles by nearest rank.

Values keep their unit: nanoseconds in, nanoseconds out.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.statistics.values import require, sorted_values

TRIM = 0.2


def trimmed_mean(values: ArrayLike, fraction: float = TRIM) -> float:
    """Return the mean without the lowest and highest `fraction` of the values (MLModelScope: 0.2).

    floor(n * `fraction`) values are dropped at each end. As in the code of the papers, fewer than 3
    values give their mean and 3 their median. That code drops only the largest of 4 values, and
    treats a fraction of 0 as 0.2; here 4 values give their mean (none is dropped at either end),
    and 0 gives the plain mean. Raises NoValues, NotFinite, OutOfRange.
    """
    require("fraction", fraction, 0.0 <= fraction < 0.5, "from 0 to below 0.5")
    return float(trimmed_means(sorted_values(values), fraction))


def percentile(values: ArrayLike, p: float) -> float:
    """Return the nearest-rank percentile: the smallest value with a share of `p` or more up to it.

    sorted[ceil(p * n) - 1] for 0 < p <= 1: always one of the values. LoadGen's sorted[n * p] is the
    next larger value if n * p is an integer, else the same. Raises NoValues, NotFinite, OutOfRange.
    """
    require("p", p, 0.0 < p <= 1.0, "above 0 and up to 1")
    rising = sorted_values(values)
    # 0.55 * 100 is 55.00000000000001; the small subtraction keeps its rank at 55.
    return float(rising[max(math.ceil(p * rising.size - 1e-9), 1) - 1])


def trimmed_means(rising: NDArray[np.float64], fraction: float) -> NDArray[np.float64]:
    """Return the trimmed means along the last axis, [..., n] to [...], of ascending values."""
    count = rising.shape[-1]
    if fraction > 0.0 and count == 3:
        middle: NDArray[np.float64] = rising[..., 1]
        return middle
    dropped = trimmed_count(count, fraction)
    return np.asarray(rising[..., dropped : count - dropped].mean(axis=-1), np.float64)


def trimmed_count(count: int, fraction: float) -> int:
    """Return how many of `count` values are dropped at each end for a `fraction`."""
    # 0.29 * 100 is 28.999999999999996; the small addition makes it 29.
    return math.floor(count * fraction + 1e-9)
