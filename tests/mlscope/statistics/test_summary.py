"""The numbers of a summary against slow definitions."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import NotFinite, NoValues, OutOfRange, percentile, summary, trimmed_mean

latencies = st.lists(st.integers(0, 10**12), min_size=1, max_size=60)
fractions = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.25, 0.29, 0.4])


def _slow_trimmed_mean(values: list[int], fraction: float) -> float:
    if len(values) == 3 and fraction > 0:
        return sorted(values)[1]
    dropped = math.floor(len(values) * Fraction(str(fraction)))
    left = sorted(values)
    for _ in range(dropped):
        left.remove(max(left))
        left.remove(min(left))
    return float(Fraction(sum(left), len(left)))


@given(latencies, fractions)
def test_trimmed_mean_is_the_mean_of_what_is_left(values: list[int], fraction: float) -> None:
    assert trimmed_mean(values, fraction) == pytest.approx(_slow_trimmed_mean(values, fraction))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], 7),
        ([1, 9], 5),  # fewer than 3: the mean
        ([1, 100, 2], 2),  # 3: the median
        ([1, 2, 3, 100], 26.5),  # the papers' code would drop the 100 alone
        ([100, 1, 2, 3, 0], 2),
        (range(10), 4.5),
    ],
)
def test_trimmed_mean_of_few(values: list[int], expected: float) -> None:
    assert trimmed_mean(values) == expected


@given(latencies, st.randoms())
def test_trimmed_mean_does_not_know_the_order(values: list[int], random: object) -> None:
    assert trimmed_mean(values) == trimmed_mean(sorted(values, reverse=True))


@given(latencies, st.integers(1, 1000))
def test_percentile_is_the_least_value_with_enough_below(values: list[int], mille: int) -> None:
    found = percentile(values, mille / 1000)
    assert found in values
    enough = [
        each
        for each in values
        if 1000 * sum(other <= each for other in values) >= mille * len(values)
    ]
    assert found == min(enough)


def test_percentile_takes_the_rank_meant() -> None:
    assert percentile(range(1, 101), 0.55) == 55
    assert percentile(range(1, 1001), 0.999) == 999


@given(latencies)
def test_summary_is_ordered_and_complete(values: list[int]) -> None:
    found = summary(values)
    assert found.count == len(values)
    tail = [found.minimum, found.p90, found.p95, found.p99, found.p99_9, found.maximum]
    assert tail == sorted(tail)
    assert found.minimum <= found.median <= found.maximum
    assert found.mean == pytest.approx(np.mean(values))
    assert (found.std is None) == (len(values) == 1)


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1])
def test_an_impossible_percentile_is_refused(p: float) -> None:
    with pytest.raises(OutOfRange):
        percentile([1], p)


def test_half_cannot_be_trimmed_at_each_end() -> None:
    with pytest.raises(OutOfRange) as refused:
        trimmed_mean([1, 2], 0.5)
    assert refused.value.name == "fraction"


def test_nothing_has_no_summary() -> None:
    with pytest.raises(NoValues):
        summary([])


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(NotFinite) as refused:
        summary([1.0, math.nan, math.inf])
    assert refused.value.index == 1


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=40))
def test_a_summary_agrees_with_the_standard_library(values: list[int]) -> None:
    found = summary(values)
    assert found.median == statistics.median(values)
    assert found.std == pytest.approx(statistics.stdev(values))
    assert found.trimmed_mean == trimmed_mean(values, 0.2)
    tail = (found.p90, found.p95, found.p99, found.p99_9)
    assert tail == tuple(percentile(values, p) for p in (0.9, 0.95, 0.99, 0.999))


def test_a_summary_of_four_by_hand() -> None:
    # Their mean is 4.25; the squares of the deviations add up to 48.75, over 3 are 16.25.
    found = summary([10, 1, 4, 2])
    assert (found.mean, found.median, found.trimmed_mean) == (4.25, 3.0, 4.25)
    assert found.std == pytest.approx(16.25**0.5)
    assert (found.minimum, found.p90, found.maximum) == (1.0, 10.0, 10.0)
