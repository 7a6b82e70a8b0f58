"""What lists of the best classes say never exceeds what whole distributions would."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.accuracy.divergence import (
    Vector,
    bhattacharyya,
    hellinger,
    jensen_shannon,
    kullback_leibler,
    max_difference,
)
from mlscope.accuracy.sparse import TopK, least_divergence, least_max_difference


def _squared_hellinger(p: Vector, q: Vector) -> float:
    return hellinger(p, q) ** 2


# Hellinger is left to its square: a root makes 1e-3 of a rounding of 1e-6.
MEASURES = [kullback_leibler, jensen_shannon, _squared_hellinger, bhattacharyya]
seeds = st.integers(0, 2**32 - 1)


def _best(whole: Vector, k: int) -> TopK:
    return TopK({int(label): float(whole[label]) for label in np.argsort(-whole)[:k]})


def _distributions(seed: int, classes: int) -> tuple[Vector, Vector]:
    random = np.random.default_rng(seed)
    p, q = random.dirichlet(np.full(classes, random.choice([0.2, 1.0, 9.0])), 2)
    alike = random.choice([0.0, 0.5, 0.9])
    return p, alike * p + (1 - alike) * q


@pytest.mark.parametrize("measure", MEASURES)
@given(seeds, st.integers(1, 7), st.integers(1, 7))
def test_a_lower_bound(
    measure: Callable[[Vector, Vector], float], seed: int, k1: int, k2: int
) -> None:
    p, q = _distributions(seed, 7)
    bound = least_divergence(_best(p, k1), _best(q, k2), measure)
    # What a list leaves over is a small difference of large numbers: the smaller it is, the larger
    # is its rounding beside it.
    least = max(float(min(p.min(), q.min())), np.finfo(float).tiny)
    rounding = 4 * np.finfo(float).eps / least
    assert 0.0 <= bound <= measure(p, q) * (1 + 1e-6) + 2e-6 + rounding


@pytest.mark.parametrize("measure", MEASURES)
@given(seeds)
def test_complete_lists_lose_nothing(measure: Callable[[Vector, Vector], float], seed: int) -> None:
    p, q = _distributions(seed, 5)
    found = least_divergence(_best(p, 5), _best(q, 5), measure)
    assert found == pytest.approx(measure(p, q), rel=1e-6, abs=2e-6)


@pytest.mark.parametrize("measure", [kullback_leibler, jensen_shannon])
@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_no_split_that_the_limits_allow_is_smaller(
    measure: Callable[[Vector, Vector], float], seed: int, k1: int, k2: int
) -> None:
    p, q = (_best(one, k) for one, k in zip(_distributions(seed, 6), (k1, k2), strict=True))
    bound, common = least_divergence(p, q, measure), p.probabilities.keys() & q.probabilities.keys()
    shared = [[one.probabilities[label] for label in sorted(common)] for one in (p, q)]
    a, b = p.mass - sum(shared[0]), q.mass - sum(shared[1])
    for x in np.linspace(0, min(q.missing_mass, (k1 - len(common)) * q.most_unlisted), 9):
        for y in np.linspace(0, min(p.missing_mass, (k2 - len(common)) * p.most_unlisted), 9):
            one = np.array([*shared[0], max(a, 0), y, p.missing_mass - y])
            other = np.array([*shared[1], x, max(b, 0), q.missing_mass - x])
            assert bound <= measure(one, other) + 2e-6


def test_golden_values_by_hand() -> None:
    # Each sure of another class: the other's class has at most the .1 that is missing.
    cat, dog = TopK({0: 0.9}), TopK({1: 0.9})
    sure, doubt = np.array([0.9, 0.1, 0.0]), np.array([0.1, 0.9, 0.0])
    assert least_divergence(cat, dog, kullback_leibler) == pytest.approx(0.8 * math.log(9))
    assert least_divergence(cat, dog, hellinger) == pytest.approx(hellinger(sure, doubt))
    assert least_max_difference(cat, dog) == pytest.approx(0.8)
    # Either may be what the other left out: nothing is known to differ.
    assert least_divergence(TopK({0: 0.4}), TopK({1: 0.4}), jensen_shannon) == pytest.approx(0.0)


@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_the_largest_difference_is_a_lower_bound_too(seed: int, k1: int, k2: int) -> None:
    p, q = _distributions(seed, 6)
    found = least_max_difference(_best(p, k1), _best(q, k2))
    assert 0.0 <= found <= max_difference(p, q) + 1e-12
    assert least_max_difference(_best(q, k2), _best(p, k1)) == pytest.approx(found)
    if k1 == k2 == 6:
        assert found == pytest.approx(max_difference(p, q))


def test_rounded_sums_are_not_infinitely_far() -> None:
    whole, rounded = TopK({0: 0.7, 1: 0.3}), TopK({0: 0.7, 1: 0.2999999})
    assert least_divergence(rounded, whole, kullback_leibler) == pytest.approx(0.0, abs=1e-6)
    assert least_divergence(TopK({0: 0.7, 1: 0.2}), whole, kullback_leibler) == math.inf


def test_the_best_class_is_the_lowest_of_equals() -> None:
    assert TopK({5: 0.4, 2: 0.4, 1: 0.1}).best == 2
