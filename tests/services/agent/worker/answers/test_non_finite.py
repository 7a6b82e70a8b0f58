"""Outputs that are no numbers, and outputs by name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from services.agent.worker.answers.non_finite import (
    are_finite,
    failed_positions,
    non_finite_outputs,
    output_named,
)

ANY_FLOATS = arrays(
    st.sampled_from([np.float16, np.float32, np.float64]), st.tuples(st.integers(1, 4), st.just(3))
)


@given(ANY_FLOATS)
def test_a_fault_is_found_where_a_value_is_not_finite_and_nowhere_else(
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    faults = non_finite_outputs({"y": values}, frozenset())
    bad = ~np.isfinite(values)
    assert not (bad.any() and are_finite({"y": values}))
    assert [fault.nan + fault.infinite for fault in faults] == [bad.sum()] * bool(bad.any())
    assert [fault.positions for fault in faults] == [tuple(np.flatnonzero(bad.any(axis=1)))] * bool(
        bad.any()
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [5, 10, 20_000])
def test_one_bad_value_among_many_is_enough(bad: float, size: int) -> None:
    values = np.ones((2, size), np.float32)
    values[1, size // 2] = bad
    assert not are_finite({"first": np.ones(3), "y": values})
    (fault,) = non_finite_outputs({"first": np.ones(3), "y": values}, frozenset())
    assert (fault.output, fault.size, fault.positions) == ("y", 2 * size, (1,))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("size", [1, 100, 9000])
def test_numbers_are_taken_for_what_they_are(kind: type, size: int) -> None:
    assert are_finite({"y": np.ones((1, size), kind), "none": np.ones((0, 4), kind)})


def test_the_message_names_the_output_and_the_counts() -> None:
    values = np.array([[1, np.nan], [np.inf, np.nan]], np.float32)
    (fault,) = non_finite_outputs({"logits": values}, frozenset())
    assert str(fault) == "output logits: 2 NaN and 1 infinite of 4 values (rows 0, 1)"


@pytest.mark.parametrize("size", [4, 20_000])
def test_values_whose_sum_overflows_are_numbers_all_the_same(size: int) -> None:
    assert not non_finite_outputs({"y": np.full((1, size), 3e38, np.float32)}, frozenset())


def test_what_is_allowed_or_whole_is_no_fault() -> None:
    outputs = {"mask": np.array([np.inf]), "count": np.array([3]), "score": np.array([np.nan])}
    assert not non_finite_outputs(outputs, frozenset(["", "score"]))
    assert len(non_finite_outputs(outputs, frozenset(["score"]))) == 1


def test_a_row_that_is_no_sample_fails_them_all() -> None:
    (fault,) = non_finite_outputs({"y": np.array([[1.0], [np.nan], [1.0]])}, frozenset())
    assert list(failed_positions(fault, 2)) == [0, 1]
    assert list(failed_positions(fault, 3)) == [1]


def test_an_output_of_each_sample_by_itself_becomes_a_list() -> None:
    outputs = {"0.boxes": np.zeros((2, 4)), "0.n": np.zeros(1), "1.boxes": np.zeros((5, 4))}
    assert [len(each) for each in output_named(outputs, "0.boxes")] == [2, 5]
    assert output_named(outputs, "") is outputs["0.boxes"]


def test_a_sample_s_own_output_fails_that_sample() -> None:
    outputs = {"0.boxes": np.zeros(4), "1.boxes": np.array([np.nan])}
    (fault,) = non_finite_outputs(outputs, frozenset())
    assert list(failed_positions(fault, 2)) == [1]


def test_an_output_that_is_not_there_is_named() -> None:
    with pytest.raises(LookupError, match="no output 'z'; there are x, y"):
        output_named({"x": np.zeros(1), "y": np.zeros(1)}, "z")
