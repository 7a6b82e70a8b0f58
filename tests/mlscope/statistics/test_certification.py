"""Early stopping: MLPerf's numbers, and bounds that hold as often as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import is_certified, minimum_count


@pytest.mark.parametrize(("p", "count"), [(0.9, 64), (0.99, 662), (0.999, 6636)])
def test_the_fewest_queries_are_loadgens(p: float, count: int) -> None:
    assert minimum_count(p) == count
    assert is_certified(p, count)
    assert not is_certified(p, count - 1)


def test_a_servers_bound_needs_459_when_none_is_over_it() -> None:
    assert minimum_count(0.99, above=0) == 459


@given(st.sampled_from([0.5, 0.9, 0.97, 0.99]), st.integers(0, 30))
def test_more_over_the_bound_need_more_queries(p: float, above: int) -> None:
    assert minimum_count(p, above=above) < minimum_count(p, above=above + 1)


def test_a_certified_bound_holds_as_often_as_said() -> None:
    uniform = np.sort(np.random.default_rng(2).random((2000, 200)))
    above = max(t for t in range(1, 20) if minimum_count(0.9, above=t) <= 200)
    assert np.mean(uniform[:, -above] >= 0.9) >= 0.985
