"""Parameters of a scenario: each reading returns what fits or names what does not."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.load.errors import InvalidParameter
from mlscope.load.parameters import MAX_QUERIES, MAX_SAMPLES, Parameters


def given_(**values: Any) -> Parameters:
    """Return parameters of a scenario."""
    return Parameters("online", values)


@pytest.mark.parametrize(
    ("found", "whole"),
    [(1, 1), (10, 10), (7.0, 7), (np.int64(3), 3), (np.float64(4.0), 4)],
)
def test_whole_numbers_come_in_many_shapes(found: object, whole: int) -> None:
    read = given_(n=found).integer("n", 5, 1, 10)
    assert (read, type(read)) == (whole, int)


@pytest.mark.parametrize(
    "found", [0, 11, -1, 1.5, True, "7", None, [], math.nan, math.inf, 10**400, 1e300]
)
def test_what_is_no_count_is_named(found: object) -> None:
    with pytest.raises(InvalidParameter) as refused:
        given_(n=found).integer("n", 5, 1, 10)
    error = refused.value
    assert (error.scenario, error.field, error.actual) == ("online", "n", found)
    assert error.allowed == "a whole number from 1 to 10"


@pytest.mark.parametrize("found", [0.5, 1, np.float32(2.0), Fraction(3, 2)])
def test_numbers_come_in_many_shapes(found: object) -> None:
    read = given_(x=found).number("x", 1.0, 0.5, 2.0)
    assert (read, type(read)) == (float(found), float)  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [0.4, 2.1, True, "1", None, math.nan, -math.inf, 1 + 0j, 10**400])
def test_what_is_no_number_is_named(found: object) -> None:
    with pytest.raises(InvalidParameter, match=r"a number from 0\.5 to 2$"):
        given_(x=found).number("x", 1.0, 0.5, 2.0)


@pytest.mark.parametrize(("found", "mode"), [("ahead",) * 2, ("streamed",) * 2, (None, "")])
def test_when_samples_are_prepared_is_read(found: object, mode: str) -> None:
    assert given_(samples=found).samples() == mode
    assert given_().samples() == ""


@pytest.mark.parametrize("found", ["", "Ahead", "stream", True, 1, [], ["ahead"]])
def test_another_time_to_prepare_samples_is_named_with_the_choices(found: object) -> None:
    with pytest.raises(InvalidParameter) as refused:
        given_(samples=found).samples()
    assert str(refused.value) == f"online.samples: found {found!r}, allowed is ahead or streamed"


@given(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none()))
def test_any_value_is_read_within_its_bounds_or_refused(found: object) -> None:
    for read in (given_(n=found).integer, given_(n=found).number):
        try:
            value = read("n", 5, 1, 10)
        except InvalidParameter:
            continue
        assert 1 <= value <= 10
        assert value == found


def test_what_is_not_given_is_the_default() -> None:
    assert given_().integer("n", 5, 1, 10) == 5
    assert given_().number("x", 1.5, 0.5, 2.0) == 1.5
    assert (given_().seed("s"), given_(s=None).seed("s"), given_(s=0).seed("s")) == (None, None, 0)


@pytest.mark.parametrize(("found", "fits"), [(2**64 - 1, True), (2**64, False), (-1, False)])
def test_a_seed_has_64_bits(found: int, fits: bool) -> None:
    if fits:
        assert given_(s=found).seed("s") == found
    else:
        with pytest.raises(InvalidParameter):
            given_(s=found).seed("s")


@pytest.mark.parametrize(
    ("batch_size", "most"),
    [
        (1, MAX_QUERIES),
        (5, MAX_QUERIES),
        (50, MAX_SAMPLES // 50),
        (MAX_SAMPLES, 1),
        (10 * MAX_SAMPLES, 1),
    ],
)
def test_queries_are_bounded_by_what_they_carry(batch_size: int, most: int) -> None:
    assert given_(queries=most).queries(1, batch_size) == most
    with pytest.raises(InvalidParameter):
        given_(queries=most + 1).queries(1, batch_size)


def test_a_misspelt_parameter_is_named_with_those_there_are() -> None:
    assert given_(queries=1).only("queries", "seed") == given_(queries=1)
    with pytest.raises(InvalidParameter) as refused:
        given_(querys=1).only("queries", "seed")
    assert (refused.value.field, refused.value.allowed) == ("querys", "queries, seed")
    assert str(refused.value) == "online.querys: no such parameter; known parameters: queries, seed"
