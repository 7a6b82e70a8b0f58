"""The distributions against exact sums and published tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics.distributions import binomial_cdf, student_cdf, student_quantile


@given(st.integers(1, 80), st.floats(0.001, 0.999))
def test_binomial_is_the_exact_sum(trials: int, p: float) -> None:
    first, cdf = binomial_cdf(trials, p)
    exact = 0.0
    for count in range(first + len(cdf)):
        exact += math.comb(trials, count) * p**count * (1 - p) ** (trials - count)
        if count >= first:
            assert cdf[count - first] == pytest.approx(exact, abs=1e-12)


def test_binomial_of_millions_is_normal_and_small() -> None:
    first, cdf = binomial_cdf(10_000_000, 0.5)
    assert cdf[5_000_000 - first] == pytest.approx(0.5, abs=2e-4)
    assert cdf[5_000_000 + 1581 - first] == pytest.approx(0.8413, abs=2e-4)
    assert len(cdf) < 50_000


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (9, 2.262),
        (19, 2.093),
        (120, 1.980),
        (10**9, 1.960),
    ],
)
def test_student_agrees_with_the_tables(freedom: int, quantile: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-4)
    assert student_quantile(0.025, freedom) == pytest.approx(-quantile, abs=5e-4)


@given(st.integers(1, 300), st.floats(0.001, 0.999))
def test_student_quantile_inverts_the_distribution(freedom: int, p: float) -> None:
    assert student_cdf(student_quantile(p, freedom), freedom) == pytest.approx(p, abs=1e-7)
