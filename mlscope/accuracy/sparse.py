"""Bounds on the divergence of two lists that keep the best classes alone. Pure.

The probability that a list leaves out, 1 minus its sum, belongs to classes that nobody recorded. It
is neither dropped nor spread evenly here. Classes in both lists are compared as they are. Of the
others only this is known: a class that a list leaves out has at most that list's lowest listed
probability, and all of them together have at most the missing mass. Among all distributions within
these limits the one with the lowest divergence is taken. The classes of only one list count as one
class, and so do those of neither, which never raises a divergence (data-processing inequality,
Csiszar 1967). So every divergence of lists is a lower bound of the true one, and equal to it where
the lists are complete.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mlscope.accuracy.divergence import Vector

#: a mass left over on both sides counts as rounding below this, not as a class that only one list
#: excludes, whose divergence would be infinite; a bound is off by less than this
ROUNDING = 1e-6


@dataclass(frozen=True)
class _OnlyListed:
    """The classes that only one of the lists has."""

    #: sum of their probabilities in their list
    mass: float
    #: most that the other list, which leaves them out, can have for them together
    most_elsewhere: float


@dataclass(frozen=True)
class TopK:
    """The best classes of one sample and their probabilities, in any order."""

    probabilities: Mapping[int, float]

    @property
    def mass(self) -> float:
        """Return the sum of the listed probabilities."""
        return float(sum(self.probabilities.values()))

    @property
    def missing_mass(self) -> float:
        """Return the probability of all classes that are not listed."""
        return max(0.0, 1.0 - self.mass)

    @property
    def most_unlisted(self) -> float:
        """Return the highest probability that a class outside the list can have."""
        return min(self.missing_mass, min(self.probabilities.values()))

    @property
    def best(self) -> int:
        """Return the class with the highest probability, among equals the lowest."""
        return min(self.probabilities, key=lambda label: (-self.probabilities[label], label))


def least_divergence(
    first: TopK, second: TopK, measure: Callable[[Vector, Vector], float]
) -> float:
    """Return a lower bound of `measure` of the whole distributions of `first` and `second`.

    `measure` is an f-divergence of two probability vectors, or a function that rises with one.
    """
    common = sorted(first.probabilities.keys() & second.probabilities.keys())
    only_first, only_second = _only_listed(first, second), _only_listed(second, first)
    first_common, second_common = (
        [listed.probabilities[label] for label in common] for listed in (first, second)
    )
    divergences = []
    for x, y in _splits(first, second, only_first, only_second):
        unlisted = max(0.0, first.missing_mass - y), max(0.0, second.missing_mass - x)
        if max(unlisted) < ROUNDING:
            unlisted = 0.0, 0.0
        p = [*first_common, only_first.mass, y, unlisted[0]]
        q = [*second_common, x, only_second.mass, unlisted[1]]
        divergences.append(measure(np.array(p), np.array(q)))
    return min(divergences)


def least_max_difference(first: TopK, second: TopK) -> float:
    """Return a lower bound of the largest absolute difference of a class's probabilities."""
    p, q = first.probabilities, second.probabilities
    bounds = [0.0]
    bounds += (abs(p[label] - q[label]) for label in p.keys() & q.keys())
    bounds += (p[label] - second.most_unlisted for label in p.keys() - q.keys())
    bounds += (q[label] - first.most_unlisted for label in q.keys() - p.keys())
    return max(bounds)


def _only_listed(listed: TopK, elsewhere: TopK) -> _OnlyListed:
    labels = listed.probabilities.keys() - elsewhere.probabilities.keys()
    mass = float(sum(listed.probabilities[label] for label in labels))
    return _OnlyListed(mass, min(elsewhere.missing_mass, len(labels) * elsewhere.most_unlisted))


def _splits(
    first: TopK, second: TopK, only_first: _OnlyListed, only_second: _OnlyListed
) -> list[tuple[float, float]]:
    """Return candidates (x, y) for the lowest divergence.

    x is what the second list has for the classes of the first alone, y the reverse. Without limits
    the lowest divergence has equal ratios everywhere outside the common classes. Divergences are
    convex in (x, y): where a limit forbids equal ratios, the lowest lies on a limit that they
    exceed, and there, with the other free, ratios are equal again.
    """
    a, b = only_first.mass, only_second.mass
    p, q = a + first.missing_mass, b + second.missing_mass
    x, y = _ratio(a, p) * q, _ratio(b, q) * p
    if x <= only_first.most_elsewhere and y <= only_second.most_elsewhere:
        return [(x, y)]
    x, y = only_first.most_elsewhere, only_second.most_elsewhere
    return [
        (x, min(y, _ratio(b, q - x) * first.missing_mass)),
        (min(x, _ratio(a, p - y) * second.missing_mass), y),
    ]


def _ratio(part: float, total: float) -> float:
    return part / total if total > 0 else 0.0
