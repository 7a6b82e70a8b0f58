"""The stop rule."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.load.stopping import (
    block_statistics,
    relative_interval,
    stop_caveat,
    stop_reason,
)
from schemas.request import Blocks

MEDIANS = st.lists(st.floats(1.0, 1e9), min_size=0, max_size=40)


def test_an_interval_is_that_of_students_t() -> None:
    # mean 11, s 1, t(0.975, 2) 4.303: 2 * 4.303 / sqrt(3) / 11
    assert relative_interval([10, 11, 12]) == pytest.approx(2 * 4.303 / math.sqrt(3) / 11)
    assert relative_interval([10]) == math.inf
    assert relative_interval([0, 0]) == math.inf


def test_without_an_interval_exactly_least_blocks_are_done() -> None:
    rule = Blocks(least=2, most=5)
    assert [stop_reason(rule, [7.0] * count) for count in range(4)] == ["", "", "least", "least"]


def test_noise_goes_on_to_the_bound_and_quiet_stops_early() -> None:
    rule = Blocks(least=2, most=4, interval=0.05)
    assert stop_reason(rule, [100.0, 100.1]) == "interval"
    assert stop_reason(rule, [100.0, 150.0, 120.0]) == ""
    assert stop_reason(rule, [100.0, 150.0, 120.0, 90.0]) == "most"


@pytest.mark.parametrize(
    ("medians", "passed_s", "ended"),
    [
        ([100.0], 99.0, ""),
        ([100.0, 150.0], 1.9, ""),
        ([100.0, 150.0], 2.0, "budget"),
        ([100.0, 100.1], 2.0, "interval"),
        ([100.0, 150.0, 120.0, 90.0], 2.0, "most"),
    ],
)
def test_time_that_is_up_ends_it_but_not_before_the_least(
    medians: list[float], passed_s: float, ended: str
) -> None:
    rule = Blocks(least=2, most=4, interval=0.05, budget_s=2.0)
    assert stop_reason(rule, medians, passed_s) == ended


def test_with_a_budget_alone_there_are_as_many_blocks_as_fit_into_it() -> None:
    rule = Blocks(least=1, most=3, budget_s=2.0)
    assert [stop_reason(rule, [7.0] * count, 1.0) for count in (1, 2, 3)] == ["", "", "most"]
    assert stop_reason(rule, [7.0], 2.5) == "budget"


def test_an_interval_that_was_not_reached_is_told() -> None:
    rule = Blocks(least=2, most=2, interval=0.01, budget_s=60)
    noisy = [100.0, 110.0]
    told = (
        f"the interval of the median is {relative_interval(noisy):.1%} of its value wide; "
        "1.0% was requested"
    )
    assert stop_caveat(rule, noisy, "most") == f"ended at 2 blocks, the most allowed: {told}"
    assert stop_caveat(rule, noisy, "budget").startswith("ended at 2 blocks, its budget of 60 s")
    assert stop_caveat(rule, [100.0], "budget").startswith("ended at 1 block, its budget")
    assert "has no interval" in stop_caveat(rule, [100.0], "budget")
    assert stop_caveat(rule, noisy, "interval") == ""
    assert stop_caveat(Blocks(), noisy, "most") == ""


def test_a_narrow_interval_is_told_with_the_digits_that_it_needs() -> None:
    fine = Blocks(least=2, most=2, interval=0.0001)
    told = "the median is 0.013% of its value wide; 0.01% was requested"
    assert told in stop_caveat(fine, [100_000.0, 100_001.0], "most")


@given(MEDIANS, st.integers(1, 9), st.integers(0, 9), st.floats(0, 0.5))
def test_a_measurement_ends_between_its_bounds(
    medians: list[float], least: int, more: int, interval: float
) -> None:
    rule = Blocks(least=least, most=least + more, interval=interval)
    if len(medians) < least:
        assert not stop_reason(rule, medians)
    if len(medians) >= rule.most:
        assert stop_reason(rule, medians)


def test_a_rule_of_the_result_goes_on_until_nothing_is_missing() -> None:
    rule = Blocks(least=1, most=5, interval=0.1, budget_s=10.0, of="result")
    noisy = [100.0, 300.0, 100.0]
    assert stop_reason(rule, noisy, 1.0, "its throughput has no interval") == ""
    assert stop_reason(rule, noisy, 1.0) == "interval"
    assert [stop_reason(rule, noisy[:count], 1.0) for count in (1, 2)] == ["", ""]
    assert stop_reason(rule, noisy[:1], 10.0, "its throughput has no interval") == "budget"
    assert stop_reason(rule, [*noisy, 1.0, 1.0], 1.0, "its throughput has no interval") == "most"


def test_a_result_that_was_not_known_in_time_is_a_caveat() -> None:
    rule = Blocks(least=1, most=5, interval=0.1, budget_s=10.0, of="result")
    missing = "its throughput is known to within 20% (95% interval); the goal is within 5%"
    assert stop_caveat(rule, [1.0, 2.0], "budget", missing) == (
        f"ended at 2 blocks, its budget of 10 s spent: {missing}"
    )
    assert stop_caveat(rule, [1.0], "budget") == ""
    assert stop_caveat(rule, [1.0] * 3, "interval") == ""


def test_a_block_is_summed_up_by_its_median() -> None:
    statistics = block_statistics(3, [5, 1, 900])
    assert (statistics.block, statistics.queries, statistics.median_ns) == (3, 3, 5)
    assert block_statistics(0, []).median_ns == 0
