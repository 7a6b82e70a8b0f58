"""The distributions behind the intervals, without SciPy."""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_STANDARD_NORMAL = NormalDist()
_MANY_FREEDOMS = 200
"""From here on the expansion of Student's quantile is exact to 1e-7, and as fast for a million."""


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution for a probability in (0, 1)."""
    return _STANDARD_NORMAL.inv_cdf(probability)


def normal_cdf(value: float) -> float:
    """Return the standard normal distribution function at a value."""
    return _STANDARD_NORMAL.cdf(value)


def binomial_cdf(trials: int, probability: float) -> tuple[int, NDArray[np.float64]]:
    """Return the distribution function of Binomial(`trials`, `probability`) where it is not 0 or 1.

    Returns the smallest count k0 of a window that leaves out less than 1e-20 of the probability,
    and P(B <= k0 + i) for each i in the window. The cost grows with the window, not the trials.
    """
    mean = trials * probability
    reach = 10.0 * math.sqrt(mean * (1.0 - probability)) + 50.0
    first = max(0, math.floor(mean - reach))
    counts = np.arange(first + 1, min(trials, math.ceil(mean + reach)) + 1, dtype=np.float64)
    log_ratios = np.log((trials - counts + 1) / counts * (probability / (1.0 - probability)))
    log_first = (
        math.lgamma(trials + 1)
        - math.lgamma(first + 1)
        - math.lgamma(trials - first + 1)
        + first * math.log(probability)
        + (trials - first) * math.log1p(-probability)
    )
    masses = np.exp(log_first + np.concatenate([[0.0], np.cumsum(log_ratios)]))
    # lgamma of millions has a relative error of 1e-9, so the masses are normalised to sum to 1.
    return first, np.cumsum(masses) / masses.sum()


def student_cdf(value: float, freedom: int) -> float:
    """Return Student's t distribution function at `value` for integer degrees of `freedom`.

    Closed form: Abramowitz and Stegun 26.7.3 (odd) and 26.7.4 (even).
    """
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    term = total = cosine if freedom % 2 else 1.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if freedom % 2 == 0:
        return 0.5 + 0.5 * sine * total
    return 0.5 + (angle + (sine * total if freedom > 1 else 0.0)) / math.pi


def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t: `student_cdf` inverted by bisection, to 1e-9.

    For many degrees of `freedom` it is an expansion (Abramowitz and Stegun 26.7.5), to 1e-7.
    """
    if probability < 0.5:
        return -student_quantile(1.0 - probability, freedom)
    if freedom >= _MANY_FREEDOMS:
        z = normal_quantile(probability)
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        return z + ((z**3 + z) / 4 + second / freedom) / freedom
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability:
        low, high = high, 2.0 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2.0
        low, high = (middle, high) if student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2.0
