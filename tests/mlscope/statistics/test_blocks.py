"""Intervals over blocks, against scipy's figures written down."""

import pytest

from mlscope.statistics import blocks_interval, student_975


def test_the_interval_is_students() -> None:
    # scipy.stats.t.interval(0.95, 3, loc=2.5, scale=1.2909944487/2)
    found = blocks_interval([1.0, 2.0, 3.0, 4.0])
    assert found.low == pytest.approx(0.4457, 1e-3)
    assert found.high == pytest.approx(4.5543, 1e-3)


@pytest.mark.parametrize("values", [[], [3.0]])
def test_too_few_blocks_have_none(values: list[float]) -> None:
    found = blocks_interval(values)
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (9, 2.262), (30, 2.042), (31, 2.0395)])
def test_quantiles_are_the_tables(freedom: int, t: float) -> None:
    assert student_975(freedom) == pytest.approx(t, abs=5e-5)
