"""Divergences are SciPy's, bounded, and symmetric where they should be."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlscope.accuracy.divergence import (
    Vector,
    bhattacharyya,
    correlation,
    covariance,
    hellinger,
    jensen_shannon,
    kullback_leibler,
    max_difference,
    mean_difference,
)
from tests.importing_later import imported_later

scipy_distance = imported_later("scipy.spatial.distance")
scipy_stats = imported_later("scipy.stats")

P, Q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])


@st.composite
def pairs(draw: Any) -> tuple[Vector, Vector]:
    masses = st.floats(0, 1).map(lambda mass: 0.0 if mass < 1e-6 else mass)
    size = draw(st.integers(2, 8))
    drawn = [np.array(draw(st.lists(masses, min_size=size, max_size=size))) for _ in "pq"]
    assume(all(one.sum() > 0 for one in drawn))
    return drawn[0] / drawn[0].sum(), drawn[1] / drawn[1].sum()


def test_golden_values_by_hand() -> None:
    assert kullback_leibler(P, Q) == pytest.approx(math.log(2))
    assert kullback_leibler(Q, P) == math.inf
    assert bhattacharyya(P, Q) == pytest.approx(math.log(2) / 2)
    assert hellinger(P, Q) == pytest.approx(math.sqrt(1 - math.sqrt(0.5)))
    assert (max_difference(P, Q), mean_difference(P, Q)) == (0.5, 1 / 3)


@given(pairs())
def test_agrees_with_scipy(pair: tuple[Vector, Vector]) -> None:
    p, q = pair
    assert kullback_leibler(p, q) == pytest.approx(scipy_stats.entropy(p, q), abs=1e-12)
    # Not SciPy's `jensenshannon`: its root of a sum that rounds to just below 0 is not a number.
    middle = (p + q) / 2
    expected = (scipy_stats.entropy(p, middle) + scipy_stats.entropy(q, middle)) / 2
    assert jensen_shannon(p, q) == pytest.approx(expected, abs=1e-12)
    wanted = np.linalg.norm(np.sqrt(p) - np.sqrt(q)) / math.sqrt(2)
    assert hellinger(p, q) == pytest.approx(wanted, abs=1e-12)
    assert covariance(p, q) == pytest.approx(np.cov(p, q)[0, 1], abs=1e-12)
    assert max_difference(p, q) == scipy_distance.chebyshev(p, q)
    assert mean_difference(p, q) == pytest.approx(scipy_distance.cityblock(p, q) / p.size)


def test_correlation_agrees_with_scipy() -> None:
    one, other = np.random.default_rng(1).normal(size=(2, 50))
    other += one
    assert correlation(one, other) == pytest.approx(scipy_stats.pearsonr(one, other).statistic)


@given(pairs())
def test_bounds_and_relations(pair: tuple[Vector, Vector]) -> None:
    p, q = pair
    assert kullback_leibler(p, q) >= 0.0
    assert kullback_leibler(p, p) == jensen_shannon(p, p) == hellinger(p, p) == 0.0
    assert 0.0 <= jensen_shannon(p, q) <= math.log(2)
    assert jensen_shannon(p, q) == pytest.approx(jensen_shannon(q, p), abs=1e-15)
    assert 0.0 <= hellinger(p, q) == hellinger(q, p) <= 1.0
    assert math.exp(-bhattacharyya(p, q)) == pytest.approx(1 - hellinger(p, q) ** 2)
    assert max_difference(p, q) <= np.abs(p - q).sum() / 2 + 1e-12
    assert hellinger(p, q) ** 2 <= np.abs(p - q).sum() / 2 + 1e-9


def test_nothing_shared_is_as_far_as_it_goes() -> None:
    p, q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert kullback_leibler(p, q) == bhattacharyya(p, q) == math.inf
    assert (jensen_shannon(p, q), hellinger(p, q)) == (math.log(2), 1.0)


def test_negligible_masses_are_not_infinite() -> None:
    p, q = np.array([1.0, 5e-324]), np.array([1.0, 0.0])
    assert jensen_shannon(p, q) == jensen_shannon(q, p) == 0.0
    assert kullback_leibler(np.array([0.5, 0.5]), p) == pytest.approx(371.52, abs=0.01)


@given(pairs(), st.floats(0.1, 100), st.floats(-100, 100))
def test_correlation_knows_no_scale(
    pair: tuple[Vector, Vector], scale: float, offset: float
) -> None:
    one, other = np.round(pair[0], 3), np.round(pair[1], 3)
    found = correlation(one, other)
    if found is None:
        assert min(np.ptp(one), np.ptp(other)) == 0.0
        return
    assert -1.0 <= found <= 1.0
    assert correlation(one * scale + offset, other) == pytest.approx(found, abs=1e-6)
    assert correlation(-one, other) == pytest.approx(-found)
    assert correlation(one, one) == pytest.approx(1.0)


def test_constant_and_single_values_have_no_correlation() -> None:
    assert correlation(np.ones(3), np.arange(3.0)) is None
    assert correlation(np.array([1.0]), np.array([2.0])) is None
    assert covariance(np.array([1.0]), np.array([2.0])) is None
    huge = np.array([1e200, 2e200, 4e200])
    assert correlation(huge, huge) == pytest.approx(1.0)
