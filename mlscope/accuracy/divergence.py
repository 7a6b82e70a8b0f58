"""How far two predictions for one sample are apart.

Probabilities are vectors that sum to 1, in the same order of classes; logarithms are natural, so
divergences are in nats. Nothing is smoothed: a zero where the other has mass stays a zero.
"""

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def kullback_leibler(p: Vector, q: Vector) -> float:
    """KL(p || q) = sum p ln(p / q), 0 and up (Kullback and Leibler 1951).

    Infinite where q is 0 and p is not; not symmetric.
    """
    held = p > 0
    if (q[held] == 0).any():
        return math.inf
    # Two logarithms: the ratio of a subnormal overflows. Rounding may end just below 0.
    return max(0.0, float((p[held] * (np.log(p[held]) - np.log(q[held]))).sum()))


def jensen_shannon(p: Vector, q: Vector) -> float:
    """KL(p || m) / 2 + KL(q || m) / 2, m = (p + q) / 2; 0 to ln 2 (Lin 1991).

    The divergence, whose square root is the distance that SciPy returns.
    """
    middle = (p + q) / 2
    # Half of the least subnormal is 0, which would make a negligible class infinite.
    middle = np.where(middle > 0, middle, np.maximum(p, q))
    return min(math.log(2), (kullback_leibler(p, middle) + kullback_leibler(q, middle)) / 2)


def hellinger(p: Vector, q: Vector) -> float:
    """sqrt(sum (sqrt p - sqrt q)^2 / 2), a distance from 0 to 1 (Hellinger 1909)."""
    return min(1.0, math.sqrt(float(((np.sqrt(p) - np.sqrt(q)) ** 2).sum()) / 2))


def bhattacharyya(p: Vector, q: Vector) -> float:
    """-ln sum sqrt(p q), 0 and up (Bhattacharyya 1943); infinite where no class is shared."""
    shared = float((np.sqrt(p) * np.sqrt(q)).sum())
    return max(0.0, -math.log(shared)) if shared > 0 else math.inf


def covariance(first: Vector, second: Vector) -> float | None:
    """Sample covariance over the elements (n - 1); None of a single element."""
    if first.size < 2:
        return None
    products = (first - first.mean()) * (second - second.mean())
    return float(products.sum() / (first.size - 1))


def correlation(first: Vector, second: Vector) -> float | None:
    """Pearson's correlation over the elements, -1 to 1; None where either is constant."""
    one, other = _centred(first), _centred(second)
    if one is None or other is None:
        return None
    return float(np.clip((one * other).sum(), -1.0, 1.0))


def max_difference(first: Vector, second: Vector) -> float:
    """Largest absolute difference of two elements, in their unit."""
    return float(np.abs(first - second).max())


def mean_difference(first: Vector, second: Vector) -> float:
    """Mean of the absolute differences, in the elements' unit."""
    return float(np.abs(first - second).mean())


def _centred(values: Vector) -> Vector | None:
    """Values less their mean, with length 1; None where they are all equal."""
    if values.size < 2 or values.min() == values.max():
        return None
    apart = values - values.mean()
    apart = apart / np.abs(apart).max()  # squares of tiny or huge values have no room
    return np.asarray(apart / math.sqrt(float((apart**2).sum())), np.float64)
