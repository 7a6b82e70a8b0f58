"""Margins: means with intervals, and what a difference's is."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.building.margins import (
    UNKNOWN,
    Margin,
    difference,
    margin_in,
    mean_margin,
    per_second,
    ratio,
    share_margin,
    total,
    trimmed_margin,
    trimmed_margins,
    trimmed_margins_by_key,
)

times = st.lists(st.integers(0, 10**9), min_size=2, max_size=30)


def test_a_mean_has_students_t() -> None:
    # t at 97.5% with 3 degrees of freedom is 3.182; s of 1, 2, 3, 6 is 2.16.
    margin = mean_margin(np.array([1, 2, 3, 6]))
    assert margin.value == 3.0
    assert margin.high == pytest.approx(3 + 3.182 * 2.1602 / 2, rel=1e-3)
    assert margin.low == 0.0
    assert (mean_margin(np.array([-9, 9])).low or 0.0) < -9


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    assert mean_margin(np.array([7])) == trimmed_margin([7]) == Margin(7.0)
    assert mean_margin(np.array([])) == trimmed_margin([]) == UNKNOWN


def test_a_difference_adds_squared_margins_end_by_end() -> None:
    found = difference(Margin(100.0, 97.0, 130.0), Margin(40.0, 0.0, 44.0))
    assert found == Margin(60.0, 60 - 5.0, 60 + 50.0)
    assert difference(Margin(9.0), Margin(4.0, 3.0, 5.0)) == Margin(5.0)
    assert difference(Margin(9.0), UNKNOWN) == UNKNOWN


def test_a_total_adds_squared_margins_end_by_end() -> None:
    assert total(Margin(100.0, 97.0, 130.0), Margin(40.0, 36.0, 80.0)) == Margin(140.0, 135, 190)
    assert total(Margin(1.0), Margin(2.0)) == Margin(3.0)
    assert total(UNKNOWN, Margin(1.0)) == UNKNOWN


def test_the_longest_time_is_the_least_rate() -> None:
    assert per_second(Margin(2e6, 1e6, 4e6), 8) == Margin(4000.0, 2000.0, 8000.0)
    assert per_second(Margin(2e6, 0.0, None)) == Margin(500.0)


@given(times, times)
def test_a_difference_is_no_surer_than_either(more: list[int], less: list[int]) -> None:
    sides = trimmed_margin(more), trimmed_margin(less)
    found = difference(*sides)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert found.high - found.low >= max(s.high - s.low for s in sides) * (1 - 1e-9)  # type: ignore[operator]


def test_margins_of_groups_are_those_of_each_alone() -> None:
    values = {"b": [5, 6, 70], "a": [1], "none": [], "c": [4, 8]}
    found = trimmed_margins_by_key(values)
    assert found == {key: trimmed_margin(told) for key, told in values.items() if told}
    # Of three the median, and as far as the plain mean's t with 2 degrees of freedom reaches.
    assert (found["b"].value, found["b"].low, list(found)) == (6.0, 0.0, ["b", "a", "c"])
    assert found["b"].high == pytest.approx(6 + 4.3027 * 37.242 / 3**0.5, rel=1e-4)
    frame = pl.DataFrame({"x": [1, 1], "y": ["p", "q"], "ns": [3, 4]})
    assert trimmed_margins(frame, ["x", "y"], "ns") == {
        (1, "p"): Margin(3.0),
        (1, "q"): Margin(4.0),
    }


def test_a_ratio_has_the_interval_of_its_logarithms() -> None:
    # ln(6 / 5.4) and ln(3.3 / 3) lie below, ln(6.6 / 6) and ln(3 / 2.7) above.
    margin = ratio(Margin(6.0, 5.4, 6.6), Margin(3.0, 2.7, 3.3))
    down = np.hypot(np.log(6 / 5.4), np.log(1.1))
    assert margin.value == 2.0
    assert margin.low == pytest.approx(2 * np.exp(-down))
    assert margin.high == pytest.approx(2 * np.exp(np.hypot(np.log(1.1), np.log(3 / 2.7))))
    assert ratio(Margin(6.0), Margin(3.0, 2.7, 3.3)) == Margin(2.0)


@pytest.mark.parametrize("value", [None, 0.0, -1.0])
def test_a_ratio_of_nothing_is_unknown(value: float | None) -> None:
    assert ratio(Margin(value, 1.0, 2.0), Margin(3.0, 2.0, 4.0)) == UNKNOWN
    assert ratio(Margin(3.0, 2.0, 4.0), Margin(value, 1.0, 2.0)) == UNKNOWN


def test_a_share_ends_at_one() -> None:
    # The mean is 0.9, and t at 97.5% with 2 degrees of freedom 4.303: it reaches up to 1.15.
    margin = share_margin(np.array([0.8, 0.9, 1.0]))
    assert margin.value == pytest.approx(0.9)
    assert margin.high == 1.0
    assert margin.low == pytest.approx(0.9 - 4.3027 * 0.1 / 3**0.5, rel=1e-4)
    assert share_margin(np.array([1.2])) == Margin(1.0)
    assert share_margin(np.array([0.5])) == Margin(0.5)
    assert share_margin(np.array([])) == UNKNOWN


def test_a_margin_is_read_from_the_cells_it_was_written_to() -> None:
    margin = Margin(2.0, 1.0, None)
    assert margin.cells("time") == {"time": 2.0, "time_low": 1.0, "time_high": None}
    assert margin_in(margin.cells("time"), "time") == margin


@given(times, times)
def test_differences_mirror_and_totals_do_not_mind_the_order(
    one: list[int], two: list[int]
) -> None:
    first, second = trimmed_margin(one), trimmed_margin(two)
    there, back = difference(first, second), difference(second, first)
    assert [-(back.high or 0.0), -(back.low or 0.0)] == pytest.approx([there.low, there.high])
    forth, reverse = total(first, second), total(second, first)
    assert [forth.low, forth.high] == pytest.approx([reverse.low, reverse.high])
