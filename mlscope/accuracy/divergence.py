"""Divergences and differences of two predictions for one sample. Pure.

Probabilities are vectors that sum to 1, in the same order of classes; logarithms are natural, so
divergences are in nats. Nothing is smoothed: a probability of 0 stays 0.
"""

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def kullback_leibler(p: Vector, q: Vector) -> float:
    """Return KL(p || q) = sum p ln(p / q) in nats, 0 and up (Kullback and Leibler 1951).

    Infinite where q is 0 and p is not; not symmetric.
    """
    possible = p > 0
    if (q[possible] == 0).any():
        return math.inf
    # Two logarithms, as the ratio of a subnormal overflows. Rounding may end just below 0.
    return max(0.0, float((p[possible] * (np.log(p[possible]) - np.log(q[possible]))).sum()))


def jensen_shannon(p: Vector, q: Vector) -> float:
    """Return KL(p || m) / 2 + KL(q || m) / 2 with m = (p + q) / 2, 0 to ln 2 nats (Lin 1991).

    This is the divergence; SciPy returns its square root, the distance.
    """
    middle = (p + q) / 2
    # Half of the least subnormal is 0, which would make the divergence infinite.
    middle = np.where(middle > 0, middle, np.maximum(p, q))
    return min(math.log(2), (kullback_leibler(p, middle) + kullback_leibler(q, middle)) / 2)


def hellinger(p: Vector, q: Vector) -> float:
    """Return sqrt(sum (sqrt p - sqrt q)^2 / 2), a distance from 0 to 1 (Hellinger 1909)."""
    return min(1.0, math.sqrt(float(((np.sqrt(p) - np.sqrt(q)) ** 2).sum()) / 2))


def bhattacharyya(p: Vector, q: Vector) -> float:
    """Return -ln sum sqrt(p q) in nats, 0 and up; infinite without a common class.

    Bhattacharyya 1943.
    """
    shared = float((np.sqrt(p) * np.sqrt(q)).sum())
    return max(0.0, -math.log(shared)) if shared > 0 else math.inf


def covariance(first: Vector, second: Vector) -> float | None:
    """Return the sample covariance over the elements (n - 1); None for a single element."""
    if first.size < 2:
        return None
    products = (first - first.mean()) * (second - second.mean())
    return float(products.sum() / (first.size - 1))


def correlation(first: Vector, second: Vector) -> float | None:
    """Return Pearson's correlation over the elements, -1 to 1; None where either is constant."""
    first_centred, second_centred = _centred(first), _centred(second)
    if first_centred is None or second_centred is None:
        return None
    return float(np.clip((first_centred * second_centred).sum(), -1.0, 1.0))


def max_difference(first: Vector, second: Vector) -> float:
    """Return the largest absolute difference of two elements, in their unit."""
    return float(np.abs(first - second).max())


def mean_difference(first: Vector, second: Vector) -> float:
    """Return the mean of the absolute differences, in the elements' unit."""
    return float(np.abs(first - second).mean())


def _centred(values: Vector) -> Vector | None:
    """Return the values minus their mean, scaled to length 1; None where they are all equal."""
    if values.size < 2 or values.min() == values.max():
        return None
    deviations = values - values.mean()
    deviations = (
        deviations / np.abs(deviations).max()
    )  # squares of tiny or huge values would under- or overflow
    return np.asarray(deviations / math.sqrt(float((deviations**2).sum())), np.float64)
