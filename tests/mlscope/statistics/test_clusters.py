"""Intervals of values whose blocks differ, by simulation and by hand."""

import numpy as np
import pytest

from mlscope.statistics import (
    Interval,
    differ_beyond_chance,
    percentile_interval,
    percentile_widening,
    throughput,
    trimmed_mean,
    trimmed_widening,
    widened,
    winsorised_interval,
)
from mlscope.statistics.blocks import student_975
from mlscope.statistics.clusters import blocks_widening

BLOCKS, QUERIES, TRIALS = 8, 40, 300
NUMBERS = np.repeat(np.arange(BLOCKS), QUERIES)


def simulated(drift: float) -> list[np.ndarray]:
    """Return the latencies of runs on a host that drifts by this share from block to block."""
    random = np.random.default_rng(7)
    shape = (TRIALS, BLOCKS, QUERIES)
    noise = random.normal(0.0, 0.1, shape) + drift * random.standard_normal((TRIALS, BLOCKS, 1))
    return list(np.exp(noise).reshape(TRIALS, -1))


@pytest.mark.parametrize(("drift", "least"), [(0.0, 0.93), (0.03, 0.9), (0.06, 0.9)])
def test_intervals_hold_the_true_values_of_a_host_that_drifts(drift: float, least: float) -> None:
    wide = np.exp(np.random.default_rng(1).normal(0.0, np.hypot(0.1, drift), 1_000_000))
    true_p90, true_mean = float(np.quantile(wide, 0.9)), trimmed_mean(wide)
    held_p90 = held_mean = 0
    for run in simulated(drift):
        factor = percentile_widening(run, 0.9, NUMBERS)
        held_p90 += _holds(percentile_interval(run, 0.9, widening=factor), true_p90)
        factor, mean = trimmed_widening(run, NUMBERS), trimmed_mean(run)
        held_mean += _holds(widened(winsorised_interval(run), mean, factor), true_mean)
    assert min(held_p90, held_mean) / TRIALS >= least


def _holds(interval: Interval, value: float) -> bool:
    low, high = interval.low, interval.high
    return (low is None or low <= value) and (high is None or value <= high)


def test_the_factor_is_the_root_of_the_design_effect_with_student_s_t() -> None:
    """Blocks of equal values: each counts once, and not as many times as it has values."""
    values, blocks = np.repeat([1.0, 2.0, 3.0], 10), np.repeat([0, 1, 2], 10)
    alone = 30 / 29 * 20
    together = 3 / 2 * 200
    expected = (together / alone) ** 0.5 * student_975(2) / 1.96
    assert blocks_widening(values, blocks) == pytest.approx(expected)


def test_a_widened_time_stays_above_zero() -> None:
    wide = widened(Interval(9.0, 11.0, 0.95, "t"), 10.0, 20.0)
    assert wide.low == pytest.approx(10 * 0.9**20)
    assert wide.high == pytest.approx(30.0)
    assert widened(Interval(0.0, 11.0, 0.95, "t"), 10.0, 20.0).low == 0.0
    assert widened(Interval(None, None, 0.95, "t"), 10.0, 20.0).low is None
    assert widened(Interval(-1.0, 1.0, 0.95, "t"), 0.0, 2.0).low == -2.0


@pytest.mark.parametrize(
    ("values", "blocks"),
    [
        ([1.0, 2.0] * 10, [0] * 10 + [1] * 10),  # two blocks
        ([1.0, 2.0, 3.0], [0, 1, 2]),  # a value in each
        ([1.0, 2.0] * 15, [0] * 10 + [1] * 10 + [2] * 10),  # equal blocks
        ([5.0] * 30, [0] * 10 + [1] * 10 + [2] * 10),  # equal values
        ([], []),
    ],
)
def test_nothing_is_widened_without_a_difference_between_three_blocks(
    values: list[float], blocks: list[int]
) -> None:
    assert blocks_widening(values, blocks) == 1.0


@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0])
def test_equal_blocks_seldom_differ_and_slower_ones_do(spread: float) -> None:
    random, numbers = np.random.default_rng(3), np.repeat(np.arange(3), 20)
    equal = np.exp(spread * random.standard_normal((400, 60)))
    assert 0.02 <= np.mean([differ_beyond_chance(run, numbers) for run in equal]) <= 0.08
    slower = equal * np.exp(2 * spread * (numbers == 1))
    assert np.mean([differ_beyond_chance(run, numbers) for run in slower]) > 0.99


def test_times_of_a_coarse_clock_are_equal() -> None:
    assert not differ_beyond_chance([1, 2] * 30, np.repeat(np.arange(3), 20))
    assert not differ_beyond_chance([5] * 60, np.repeat(np.arange(3), 20))
    assert differ_beyond_chance([1] * 20 + [1] * 20 + [2] * 20, np.repeat(np.arange(3), 20))


def test_a_rate_whose_blocks_differ_has_a_wider_interval() -> None:
    spent, blocks = np.repeat([1.0, 1.2, 0.9, 1.1], 20) * 1e7, np.repeat(np.arange(4), 20)
    # The same times with as many of each in every block.
    alike, unlike = (
        throughput(0, np.cumsum(own), 1, blocks=blocks)
        for own in (spent.reshape(4, 20).T.ravel(), spent)
    )
    assert alike.interval.high is not None
    assert unlike.interval.high is not None
    assert alike.rate_hz == pytest.approx(unlike.rate_hz)
    assert unlike.interval.high - unlike.rate_hz > 1.5 * (alike.interval.high - alike.rate_hz)
