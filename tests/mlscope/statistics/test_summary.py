"""Trimmed means and percentiles against slow definitions."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import NotFinite, NoValues, OutOfRange, percentile, trimmed_mean

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


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1])
def test_an_impossible_percentile_is_refused(p: float) -> None:
    with pytest.raises(OutOfRange):
        percentile([1], p)


def test_half_cannot_be_trimmed_at_each_end() -> None:
    with pytest.raises(OutOfRange) as refused:
        trimmed_mean([1, 2], 0.5)
    assert refused.value.name == "fraction"


@pytest.mark.parametrize("figure", [trimmed_mean, partial(percentile, p=0.9)])
def test_what_has_no_figure_is_refused(figure: Callable[[list[float]], float]) -> None:
    with pytest.raises(NoValues):
        figure([])
    with pytest.raises(NotFinite) as refused:
        figure([1.0, math.nan, math.inf])
    assert refused.value.index == 1
