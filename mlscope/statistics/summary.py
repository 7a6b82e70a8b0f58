"""Summaries of values: the trimmed mean of the papers, percentiles by nearest rank, and others.

Values keep their unit: nanoseconds in, nanoseconds out.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.statistics.values import require, sorted_values

TRIM = 0.2


@dataclass(frozen=True)
class Summary:
    """The summary of some values; all fields but `count` are in the unit of the values."""

    count: int
    mean: float
    #: the middle value, or the mean of the two middle ones
    median: float
    #: the mean without the lowest and highest fifth (`trimmed_mean`)
    trimmed_mean: float
    #: the sample standard deviation (n - 1); None for a single value
    std: float | None
    minimum: float
    p90: float
    p95: float
    p99: float
    p99_9: float
    maximum: float


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
    return float(_ranked(sorted_values(values), p))


def summary(values: ArrayLike) -> Summary:
    """Return the summary of one or more values. Raises NoValues, NotFinite."""
    rising = sorted_values(values)
    return Summary(
        count=rising.size,
        mean=float(rising.mean()),
        median=float(np.median(rising)),
        trimmed_mean=float(trimmed_means(rising, TRIM)),
        std=float(rising.std(ddof=1)) if rising.size > 1 else None,
        minimum=float(rising[0]),
        p90=_ranked(rising, 0.9),
        p95=_ranked(rising, 0.95),
        p99=_ranked(rising, 0.99),
        p99_9=_ranked(rising, 0.999),
        maximum=float(rising[-1]),
    )


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


def _ranked(rising: NDArray[np.float64], p: float) -> float:
    # 0.55 * 100 is 55.00000000000001; the small subtraction keeps its rank at 55.
    return float(rising[max(math.ceil(p * rising.size - 1e-9), 1) - 1])
