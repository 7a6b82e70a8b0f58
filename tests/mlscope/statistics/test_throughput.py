"""Throughput with its interval, and the doubling rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import (
    Estimate,
    NoValues,
    OptimalBatch,
    OutOfRange,
    optimal_batch,
    throughput,
)

rates = st.dictionaries(st.integers(1, 64), st.floats(0.1, 1e6), min_size=1, max_size=10)


def test_it_is_samples_over_the_time_to_the_last_answer() -> None:
    found = throughput(10**9, [4 * 10**9, 2 * 10**9, 3 * 10**9], 8)
    assert (found.rate_hz, found.samples) == (8.0, 24)
    assert found.interval.low is None


def test_sizes_may_differ_and_go_with_their_query() -> None:
    ended_ns, sizes = np.array([3, 1, 2]) * 10**9, [1, 5, 2]
    assert throughput(0, ended_ns, sizes) == throughput(0, ended_ns[::-1], sizes[::-1])
    assert throughput(0, ended_ns, sizes).rate_hz == pytest.approx(8 / 3)


def test_the_interval_covers_the_rate_though_answers_depend_on_each_other() -> None:
    random = np.random.default_rng(4)
    covered = 0
    for _ in range(400):
        noise = random.normal(size=2003)
        # Each gap takes part of the two before it over, as queues and clocks do.
        gaps = np.maximum(1.0 + 0.2 * (noise[:-3] + noise[1:-2] + noise[2:-1]), 0.05)
        interval = throughput(0, np.cumsum(gaps) * 1e6, 1).interval
        covered += (interval.low or 0) <= 1000.0 <= (interval.high or 0)
    assert 0.91 <= covered / 400 <= 0.985


@pytest.mark.parametrize(("queries", "least"), [(60, 0.85), (200, 0.9)])
def test_the_interval_covers_the_rate_though_whole_groups_depend_on_each_other(
    queries: int, least: float
) -> None:
    """Each time takes 0.9 of the one before over; by 20 groups as they are it covers 52 and 78%."""
    random = np.random.default_rng(5)
    news = random.normal(size=(200, queries)) * np.sqrt(1 - 0.9**2)
    level, covered = random.normal(size=200), 0
    gaps = np.empty_like(news)
    for query in range(queries):
        level = 0.9 * level + news[:, query]
        gaps[:, query] = np.maximum(1.0 + 0.2 * level, 0.05)
    for ends in np.cumsum(gaps, axis=1) * 1e6:
        interval = throughput(0, ends, 1).interval
        covered += (interval.low or 0) <= 1000.0 <= (interval.high or 0)
    assert covered / 200 >= least


@given(st.integers(10, 500), st.integers(1, 64))
def test_answers_at_even_distances_leave_no_doubt(queries: int, size: int) -> None:
    found = throughput(0, np.arange(1, queries + 1) * 10**6, size)
    assert found.interval.low == pytest.approx(1000.0 * size)
    assert found.interval.high == pytest.approx(1000.0 * size)


def test_no_time_has_no_throughput() -> None:
    with pytest.raises(NoValues):
        throughput(0, [], 1)
    with pytest.raises(OutOfRange):
        throughput(5, [5], 1)


def chosen_of(rate_by_size: dict[int, float]) -> OptimalBatch:
    """Return the optimal batch of rates that are known exactly."""
    exact = {size: Estimate(rate, rate, rate) for size, rate in rate_by_size.items()}
    return optimal_batch(exact)


def test_doubling_stops_where_it_no_longer_pays() -> None:
    found = chosen_of({1: 100, 2: 180, 4: 300, 8: 312, 16: 900})
    assert (found.batch_size, found.settled) == (4, True)
    assert found.reason == "doubling to 8 changes throughput by +4.0%"


def test_a_number_is_an_estimate_without_an_interval() -> None:
    rates_by_size = {1: 100.0, 2: 110.0, 4: 111.0}
    estimates = {size: Estimate(rate) for size, rate in rates_by_size.items()}
    assert optimal_batch(rates_by_size) == optimal_batch(estimates)
    assert optimal_batch(rates_by_size).batch_size == 2


def test_a_gain_within_its_interval_leaves_both_sizes() -> None:
    rates_by_size = {
        1: Estimate(100.0, 99.0, 101.0),
        2: Estimate(180.0, 179.5, 180.5),
        4: Estimate(191.0, 187.0, 195.0),
        8: Estimate(192.0, 191.0, 193.0),
    }
    chosen = optimal_batch(rates_by_size)
    assert (chosen.batch_size, chosen.candidates) == (4, (2, 4))
    assert not chosen.is_beyond_doubt
    assert optimal_batch(rates_by_size | {4: Estimate(191.0, 190.5, 191.5)}).candidates == (4,)


def test_rates_without_an_interval_leave_every_size() -> None:
    chosen = optimal_batch({1: Estimate(100.0), 2: Estimate(180.0), 4: Estimate(181.0)})
    assert chosen.candidates == (1, 2, 4)


def test_exactly_five_percent_is_not_more() -> None:
    assert chosen_of({1: 1.0, 2: 1.05}).batch_size == 1
    assert chosen_of({1: 1.0, 2: 1.0501}).batch_size == 2


def test_still_rising_at_the_end_is_unsettled() -> None:
    found = chosen_of({1: 10, 2: 20, 4: 40})
    assert (found.batch_size, found.settled) == (4, False)
    assert "8 was not measured" in found.reason


def test_only_pairs_count() -> None:
    found = chosen_of({1: 10, 3: 500, 2: 20, 16: 30, 32: 31})
    assert (found.batch_size, found.settled) == (16, False)
    assert "4 was not measured" in found.reason


def test_without_a_pair_the_fastest_is_named_and_unsettled() -> None:
    found = chosen_of({1: 10, 3: 30, 5: 20})
    assert (found.batch_size, found.settled) == (3, False)


def test_no_batches_have_no_optimum() -> None:
    with pytest.raises(NoValues):
        chosen_of({})


def test_a_throughput_of_nothing_is_refused() -> None:
    with pytest.raises(OutOfRange):
        chosen_of({1: 0.0, 2: 5.0})


@given(rates)
def test_the_choice_was_measured_and_no_smaller_doubling_was_flat(
    measured: dict[int, float],
) -> None:
    answer = chosen_of(measured)
    chosen = answer.batch_size
    assert chosen in measured
    assert chosen in answer.candidates
    for size in measured:
        if size < chosen and 2 * size in measured and 2 * chosen in measured:
            assert measured[2 * size] > 1.05 * measured[size]


@given(rates, st.floats(0.001, 1000))
def test_the_unit_of_throughput_does_not_matter(measured: dict[int, float], unit: float) -> None:
    # Ratios within rounding of the threshold may fall either way.
    ratios = [measured[2 * size] / measured[size] for size in measured if 2 * size in measured]
    if all(abs(ratio - 1.05) > 1e-9 for ratio in ratios):
        scaled = {size: rate * unit for size, rate in measured.items()}
        assert chosen_of(scaled).batch_size == chosen_of(measured).batch_size


@given(rates, st.floats(0.0, 0.9), st.floats(0.0, 0.09))
def test_wider_intervals_only_add_candidates(
    measured: dict[int, float], half_width: float, more: float
) -> None:
    narrow, wide = (
        optimal_batch(
            {size: Estimate(r, r * (1 - width), r * (1 + width)) for size, r in measured.items()}
        )
        for width in (half_width, half_width + more)
    )
    assert set(narrow.candidates) <= set(wide.candidates)
