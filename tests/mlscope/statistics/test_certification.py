"""Early stopping: MLPerf's numbers, and bounds that hold as often as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import (
    certified_percentile,
    is_certified,
    minimum_count,
    percentile,
)


@pytest.mark.parametrize(("p", "count"), [(0.9, 64), (0.99, 662), (0.999, 6636)])
def test_the_fewest_queries_are_loadgens(p: float, count: int) -> None:
    assert minimum_count(p) == count
    assert certified_percentile(range(count - 1), p) is None
    assert certified_percentile(range(count), p) == count - 1
    assert is_certified(p, count)
    assert not is_certified(p, count - 1)


def test_a_servers_bound_needs_459_when_none_is_over_it() -> None:
    assert minimum_count(0.99, above=0) == 459


@given(st.sampled_from([0.5, 0.9, 0.97, 0.99]), st.integers(0, 30))
def test_more_over_the_bound_need_more_queries(p: float, above: int) -> None:
    assert minimum_count(p, above=above) < minimum_count(p, above=above + 1)


@given(st.integers(64, 3000), st.integers(0, 99))
def test_a_certified_value_is_never_below_the_measured(count: int, seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=count)
    certified = certified_percentile(values, 0.9)
    assert certified is not None
    assert certified >= percentile(values, 0.9)


def test_a_certified_value_holds_as_often_as_said() -> None:
    uniform = np.random.default_rng(2).random((2000, 200))
    held = [(certified_percentile(values, 0.9) or 0.0) >= 0.9 for values in uniform]
    assert np.mean(held) >= 0.985
