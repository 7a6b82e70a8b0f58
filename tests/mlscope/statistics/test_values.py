"""What statistics are given: flat, finite, rising, and a copy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics.errors import NotFinite, NoValues, OutOfRange
from mlscope.statistics.values import require_probability, sorted_values


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1))
def test_values_are_sorted_as_floats(values: list[int]) -> None:
    found = sorted_values(values)
    assert found.dtype == np.float64
    assert found.tolist() == sorted(float(each) for each in values)


def test_what_is_given_stays_as_it_is() -> None:
    given_values = np.array([[3.0, 1.0], [2.0, 0.0]])
    sorted_values(given_values)[0] = 9.0
    assert given_values.tolist() == [[3.0, 1.0], [2.0, 0.0]]


def test_no_values_are_an_error() -> None:
    with pytest.raises(NoValues):
        sorted_values([])


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_an_error_that_says_where(odd: float) -> None:
    with pytest.raises(NotFinite, match="1"):
        sorted_values([0.0, odd, 2.0])


@pytest.mark.parametrize("found", [0.0, 1.0, -0.1, float("nan")])
def test_a_probability_is_strictly_between(found: float) -> None:
    with pytest.raises(OutOfRange, match="confidence"):
        require_probability("confidence", found)
