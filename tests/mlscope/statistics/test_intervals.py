"""Intervals cover as often as they say, on simulated data with fixed seeds."""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlscope.statistics import (
    Estimate,
    Interval,
    NoValues,
    OutOfRange,
    Resampling,
    mean_interval,
    percentile_interval,
    ratio_interval,
    wilson,
    winsorised_interval,
)
from mlscope.statistics.intervals import MAX_RESAMPLED, _resampled
from tests.thoroughness import examples

few = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40)
QUICK = Resampling(resamples=400, seed=3)


def _coverage(
    truth: float, interval_of: Callable[[NDArray[np.float64]], Interval], n: int
) -> float:
    random = np.random.default_rng(11)
    covered = 0
    for _ in range(400):
        found = interval_of(random.lognormal(0.0, 0.5, n))
        low = -math.inf if found.low is None else found.low
        covered += low <= truth <= (math.inf if found.high is None else found.high)
    return covered / 400


@pytest.mark.parametrize("n", [12, 60, 700])
@pytest.mark.parametrize(("p", "z"), [(0.5, 0.0), (0.9, 1.2815515655446004)])
def test_percentile_intervals_cover_the_percentile(n: int, p: float, z: float) -> None:
    # At least as often as said (it is exact but discrete), less 3 deviations of 400 trials.
    covered = _coverage(math.exp(0.5 * z), lambda values: percentile_interval(values, p), n)
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 400)


@pytest.mark.parametrize("n", [30, 200])
def test_bootstrap_intervals_cover_the_mean(n: int) -> None:
    covered = _coverage(math.exp(0.125), lambda values: mean_interval(values, 0.95, QUICK), n)
    assert 0.89 <= covered <= 0.99


@pytest.mark.parametrize("n", [50, 999, 1001])
def test_intervals_cover_the_trimmed_mean(n: int) -> None:
    # The mean of a lognormal(0, 0.5) between its 20th and 80th percentile, by fine quadrature.
    z = np.linspace(-0.8416212335729143, 0.8416212335729143, 200_001)
    weights = np.exp(-z * z / 2)
    truth = float((np.exp(0.5 * z) * weights).sum() / weights.sum())
    assert 0.93 <= _coverage(truth, winsorised_interval, n) <= 0.98


def test_a_time_s_interval_does_not_reach_below_zero() -> None:
    assert winsorised_interval([1.0, 9.0]).low == 0.0
    below = winsorised_interval([-1.0, 9.0]).low
    assert below is not None
    assert below < -1.0


def test_the_normal_interval_takes_over_where_the_bootstrap_ends() -> None:
    values = np.random.default_rng(5).lognormal(0.0, 0.5, MAX_RESAMPLED + 1)
    normal, resampled = mean_interval(values), mean_interval(values[:-1])
    assert (normal.method, resampled.method) == ("winsorised variance", "bootstrap BCa")
    widths = [each.high - each.low for each in (normal, resampled) if each.high and each.low]
    assert widths[0] == pytest.approx(widths[1], rel=0.1)


@settings(max_examples=examples(50))
@given(few, st.integers(0, 99))
@example(values=[0.0, 6.094091254448411e-142], seed=0)
def test_a_seed_gives_the_same_interval(values: list[float], seed: int) -> None:
    drawn = Resampling(100, seed)
    one = mean_interval(values, 0.9, drawn)
    assert one == mean_interval(values[::-1], 0.9, drawn)
    if len(values) > 1:
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.high


@settings(max_examples=examples(50))
@given(few, st.sampled_from([0.01, 0.5, 0.9, 0.99]))
def test_percentile_intervals_end_at_values(values: list[float], p: float) -> None:
    found = percentile_interval(values, p)
    assert found.low is None or found.low in values
    assert found.high is None or found.high in values


def test_published_ranks_of_the_median() -> None:
    # The 95% interval of a median of 20 is from the 6th to the 15th value (Conover 1999, A.3).
    found = percentile_interval(range(1, 21), 0.5)
    assert (found.low, found.high) == (6, 15)


def test_too_few_values_have_no_upper_bound_for_p99() -> None:
    # 0.99 ** 367 is above 2.5%, 0.99 ** 368 below.
    assert percentile_interval(range(367), 0.99).high is None
    assert percentile_interval(range(368), 0.99).high == 367


def test_one_value_and_equal_values_say_so() -> None:
    assert mean_interval([4.0]) == Interval(None, None, 0.95, "too few values")
    assert mean_interval([4.0, 4.0]) == Interval(4.0, 4.0, 0.95, "all values equal")


def test_wilson_agrees_with_the_published_example() -> None:
    # Newcombe 1998, table I, method 3: 15 of 148 and 0 of 20.
    found = wilson(15, 148)
    assert (found.low, found.high) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    none = wilson(0, 20)
    assert (none.low, none.high) == pytest.approx((0.0, 0.1611), abs=5e-5)


@given(st.integers(1, 5000), st.data())
def test_wilson_holds_the_share_and_mirrors(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    found, mirrored = wilson(successes, trials), wilson(trials - successes, trials)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= successes / trials <= found.high <= 1
    assert found.low == pytest.approx(1 - (mirrored.high or 0), abs=1e-12)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(OutOfRange):
        mean_interval([1, 2], confidence)


def test_nothing_has_no_interval() -> None:
    with pytest.raises(NoValues):
        percentile_interval([], 0.5)


def _bca_by_the_book(values: list[float], resampled: list[float]) -> list[float]:
    """Return Efron and Tibshirani (1993), 14.9 to 14.15, at 95%, word for word."""
    normal, count = NormalDist(), len(resampled)
    theta = float(np.mean(values))
    below = sum(each < theta for each in resampled) + sum(each == theta for each in resampled) / 2
    bias = normal.inv_cdf(below / count)
    left_out = [float(np.mean(np.delete(values, place))) for place in range(len(values))]
    middle = sum(left_out) / len(left_out)
    cubes = sum((middle - each) ** 3 for each in left_out)
    squares = sum((middle - each) ** 2 for each in left_out)
    acceleration = cubes / (6 * squares**1.5)
    ends = []
    for tail in (0.025, 0.975):
        shifted = bias + normal.inv_cdf(tail)
        ends.append(normal.cdf(bias + shifted / (1 - acceleration * shifted)))
    return [float(np.quantile(resampled, end)) for end in ends]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 1.0, 2.0, 2.0, 3.0, 50.0],
        [0.0] * 5 + [1.0] * 4 + [2.0],
        [float(2**n) for n in range(12)],
        [-(1.7**n) for n in range(20)],
    ],
    ids=["outlier", "ties", "skewed", "skewed down"],
)
def test_the_bootstrap_is_bca_by_the_book(values: list[float]) -> None:
    resampling = Resampling(resamples=500, seed=7)
    found = mean_interval(values, resampling=resampling)
    expected = _bca_by_the_book(values, _resampled(np.sort(values), resampling).tolist())
    assert [found.low, found.high] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_long_tail_reaches_further_than_percentiles_say() -> None:
    values, resampling = [float(2**n) for n in range(12)], Resampling()
    found = mean_interval(values, resampling=resampling)
    low, high = np.quantile(_resampled(np.sort(values), resampling), [0.025, 0.975])
    assert found.low is not None
    assert found.high is not None
    assert found.low > low
    assert found.high > high


def test_the_interval_of_a_ratio_is_that_of_its_logarithms() -> None:
    ratio = ratio_interval(Estimate(200.0, 190.0, 210.0), Estimate(100.0, 90.0, 110.0))
    down = math.hypot(math.log(200 / 190), math.log(110 / 100))
    up = math.hypot(math.log(210 / 200), math.log(100 / 90))
    assert ratio.low == pytest.approx(2.0 * math.exp(-down))
    assert ratio.high == pytest.approx(2.0 * math.exp(up))


def test_a_ratio_to_what_may_be_nothing_has_no_upper_end() -> None:
    ratio = ratio_interval(Estimate(200.0, 0.0, 400.0), Estimate(100.0, 0.0, 300.0))
    assert (ratio.low, ratio.high) == (0.0, None)
    assert ratio_interval(Estimate(2.0), Estimate(1.0, 0.9, 1.1)).low is None
    with pytest.raises(OutOfRange):
        ratio_interval(Estimate(0.0, 0.0, 1.0), Estimate(1.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_ratio_covers_it_in_95_percent(seed: int) -> None:
    generator = np.random.default_rng(seed)
    above = 200.0 + 10.0 * generator.standard_normal(2000)
    below = 100.0 + 10.0 * generator.standard_normal(2000)
    reach = 1.96 * 10.0
    intervals = [
        ratio_interval(Estimate(a, a - reach, a + reach), Estimate(b, b - reach, b + reach))
        for a, b in zip(above, below, strict=True)
    ]
    covered = sum((i.low or 0.0) <= 2.0 <= (i.high or math.inf) for i in intervals)
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)


def test_few_values_have_students_t() -> None:
    interval = winsorised_interval([11.0, 12.0, 14.0], 0.0)
    reach = 4.3027 * 1.52753 / 3**0.5
    assert interval.low == pytest.approx(37 / 3 - reach, abs=1e-3)
    assert interval.high == pytest.approx(37 / 3 + reach, abs=1e-3)
