"""Divergence of two lists that keep only the best classes.

What a list leaves out, 1 less its sum, is spread over classes nobody recorded. It is neither
dropped nor spread evenly here. Classes in both lists are compared as they are. For the rest only
this is used: a class a list leaves out has at most that list's least listed probability, and all
of them together at most the missing mass. Of everything these limits allow, the split with the
least divergence is taken, with the classes of only one list, and those of neither, each put
together as one (which never raises a divergence: the data-processing inequality, Csiszar 1967). So
every divergence of lists is a lower bound of the true one, and equal to it where the lists are
complete.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mlscope.accuracy.divergence import Vector

#: what both lists leave over is taken for a sum's rounding below this, not for a class that only
#: one of them excludes, which would be infinitely far; a bound is off by less than this
ROUNDING = 1e-6


@dataclass(frozen=True)
class _Alone:
    """Classes that only one list has."""

    #: sum of what their list gives them
    mass: float
    #: most that the other list, which left them out, can have given them together
    most: float


@dataclass(frozen=True)
class TopK:
    """One sample's best classes and their probabilities, highest first or not."""

    probabilities: Mapping[int, float]

    @property
    def mass(self) -> float:
        """Sum of what is listed."""
        return float(sum(self.probabilities.values()))

    @property
    def rest(self) -> float:
        """What is left for classes that are not listed."""
        return max(0.0, 1.0 - self.mass)

    @property
    def ceiling(self) -> float:
        """Most that one class that is not listed can have."""
        return min(self.rest, min(self.probabilities.values()))

    @property
    def best(self) -> int:
        """Class with the highest probability; of equals the lowest."""
        return min(self.probabilities, key=lambda label: (-self.probabilities[label], label))


def least_divergence(
    first: TopK, second: TopK, measure: Callable[[Vector, Vector], float]
) -> float:
    """Lower bound of an f-divergence, or of what rises with one, of the whole distributions."""
    common = sorted(first.probabilities.keys() & second.probabilities.keys())
    only_first, only_second = _alone(first, second), _alone(second, first)
    shared = [[one.probabilities[label] for label in common] for one in (first, second)]
    found = []
    for x, y in _splits(first, second, only_first, only_second):
        left = max(0.0, first.rest - y), max(0.0, second.rest - x)
        if max(left) < ROUNDING:
            left = 0.0, 0.0
        p = [*shared[0], only_first.mass, y, left[0]]
        q = [*shared[1], x, only_second.mass, left[1]]
        found.append(measure(np.array(p), np.array(q)))
    return min(found)


def least_max_difference(first: TopK, second: TopK) -> float:
    """Lower bound of the largest absolute difference of a class's probabilities."""
    bounds = [0.0]
    for label in first.probabilities.keys() | second.probabilities.keys():
        one, other = first.probabilities.get(label), second.probabilities.get(label)
        if one is None:
            bounds.append(second.probabilities[label] - first.ceiling)
        elif other is None:
            bounds.append(one - second.ceiling)
        else:
            bounds.append(abs(one - other))
    return max(bounds)


def _alone(of: TopK, against: TopK) -> _Alone:
    labels = of.probabilities.keys() - against.probabilities.keys()
    mass = float(sum(of.probabilities[label] for label in labels))
    return _Alone(mass, min(against.rest, len(labels) * against.ceiling))


def _splits(
    first: TopK, second: TopK, only_first: _Alone, only_second: _Alone
) -> list[tuple[float, float]]:
    """Candidates of what the second gives the first's own classes (x), and the reverse (y).

    With no limit the least divergence has equal ratios everywhere outside the common classes.
    Divergences are convex in (x, y): where a limit forbids that, the least lies on a limit that it
    breaks, and there, with the other free, ratios are equal again.
    """
    a, b = only_first.mass, only_second.mass
    p, q = a + first.rest, b + second.rest
    x, y = (_part(a, p) * q, _part(b, q) * p)
    if x <= only_first.most and y <= only_second.most:
        return [(x, y)]
    x, y = only_first.most, only_second.most
    return [
        (x, min(y, _part(b, q - x) * first.rest)),
        (min(x, _part(a, p - y) * second.rest), y),
    ]


def _part(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
