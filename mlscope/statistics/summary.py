"""Numbers that stand for many: the papers' trimmed mean, percentiles by nearest rank, and the rest.

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
    """What is said of one set of values; all in the unit of the values, but `count`."""

    count: int
    mean: float
    #: the middle value, or the mean of the two middle ones
    median: float
    #: the mean without the lowest and highest fifth (`trimmed_mean`)
    trimmed_mean: float
    #: of the sample (n - 1); None for a single value
    std: float | None
    minimum: float
    p90: float
    p95: float
    p99: float
    p99_9: float
    maximum: float


def trimmed_mean(values: ArrayLike, fraction: float = TRIM) -> float:
    """Mean without the lowest and highest `fraction` of the values (MLModelScope: 0.2).

    floor(n * fraction) are dropped at each end; as in the papers' code fewer than 3 values give
    their mean and 3 their median. That code, given 4, drops the largest alone, and reads fraction
    0 as 0.2; here 4 values give their mean (nothing to drop, so neither end is favoured), and 0
    the plain mean.
    """
    require("fraction", fraction, 0.0 <= fraction < 0.5, "from 0 to below 0.5")
    return float(trimmed_means(sorted_values(values), fraction))


def percentile(values: ArrayLike, p: float) -> float:
    """Take the nearest-rank percentile: the least value that a share `p` or more is not above.

    sorted[ceil(p * n) - 1] for 0 < p <= 1: always a value that was measured. LoadGen's
    sorted[n * p] is the one above it where n * p is whole, else the same.
    """
    require("p", p, 0.0 < p <= 1.0, "above 0 and up to 1")
    return float(_ranked(sorted_values(values), p))


def summary(values: ArrayLike) -> Summary:
    """Summarise `values`, at least one."""
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
    """Trimmed mean along the last axis of values that rise along it: shape [..., n] to [...]."""
    count = rising.shape[-1]
    if fraction > 0.0 and count == 3:
        middle: NDArray[np.float64] = rising[..., 1]
        return middle
    dropped = trimmed_count(count, fraction)
    return np.asarray(rising[..., dropped : count - dropped].mean(axis=-1), np.float64)


def trimmed_count(count: int, fraction: float) -> int:
    """How many of `count` values are dropped at each end."""
    # 0.29 * 100 is 28.999999999999996: the nudge makes it the 29 that was meant.
    return math.floor(count * fraction + 1e-9)


def _ranked(rising: NDArray[np.float64], p: float) -> float:
    # 0.55 * 100 is 55.00000000000001: without the nudge its rank would be 56.
    return float(rising[max(math.ceil(p * rising.size - 1e-9), 1) - 1])
