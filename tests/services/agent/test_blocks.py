"""The stop rule."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.request import Blocks
from services.agent.blocks import another_block, block_statistics, relative_interval, settled

MEDIANS = st.lists(st.floats(1.0, 1e9), min_size=0, max_size=40)


def test_an_interval_is_that_of_students_t() -> None:
    # mean 11, s 1, t(0.975, 2) 4.303: 2 * 4.303 / sqrt(3) / 11
    assert relative_interval([10, 11, 12]) == pytest.approx(2 * 4.303 / math.sqrt(3) / 11)
    assert relative_interval([10]) == math.inf
    assert relative_interval([0, 0]) == math.inf


def test_without_an_interval_exactly_least_blocks_are_done() -> None:
    rule = Blocks(least=2, most=5)
    assert [settled(rule, [7.0] * count) for count in range(4)] == [False, False, True, True]


def test_noise_goes_on_to_the_bound_and_quiet_stops_early() -> None:
    rule = Blocks(least=2, most=4, interval=0.05)
    assert settled(rule, [100.0, 100.1])
    assert not settled(rule, [100.0, 150.0, 120.0])
    assert settled(rule, [100.0, 150.0, 120.0, 90.0])


@given(MEDIANS, st.integers(1, 9), st.integers(0, 9), st.floats(0, 0.5))
def test_a_measurement_ends_between_its_bounds(
    medians: list[float], least: int, more: int, interval: float
) -> None:
    rule = Blocks(least=least, most=least + more, interval=interval)
    if len(medians) < least:
        assert not settled(rule, medians)
    if len(medians) >= rule.most:
        assert settled(rule, medians)


def test_a_group_goes_on_while_one_of_its_runs_must() -> None:
    rule = Blocks(least=2, most=9, interval=0.1)
    assert another_block(rule, [[100.0, 100.0], [100.0, 300.0]])
    assert not another_block(rule, [[100.0, 100.0], [100.0, 100.1]])
    assert not another_block(rule, [])


def test_a_block_is_summed_up_by_its_median() -> None:
    statistics = block_statistics(3, [5, 1, 900])
    assert (statistics.block, statistics.queries, statistics.median_ns) == (3, 3, 5)
    assert block_statistics(0, []).median_ns == 0
