"""Every metric's result has the same form, and is a number or absent."""

import math

import pytest

from mlscope.accuracy import NotANumber, Outcome, ShapesDiffer
from mlscope.accuracy.outcome import mean, require_same_length, share
from mlscope.statistics import wilson


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(NotANumber, match="top-1"):
        Outcome("top-1", value, 3, None, "any")


def test_a_share_has_wilson_s_interval_and_shows_its_counts() -> None:
    found = share("top-1", 7, 9, "rule", excluded=2)
    assert (found.value, found.n, found.excluded) == (7 / 9, 9, 2)
    assert found.interval == wilson(7, 9)
    assert found.method == "rule: 7 of 9"


def test_without_samples_there_is_no_value() -> None:
    for found in (share("a", 0, 0, "rule", excluded=4), mean("b", [], "rule", excluded=4)):
        assert found.value is None
        assert found.interval is None
        assert (found.n, found.excluded) == (0, 4)
        assert found.caveats == ("no sample to judge",)


def test_a_mean_has_an_interval_around_it_from_two_samples_on() -> None:
    assert mean("a", [0.5], "rule").interval is None
    found = mean("a", [0.1, 0.9, 0.4, 0.2], "rule", caveats=("small",))
    assert found.value == pytest.approx(0.4)
    assert found.interval is not None
    assert found.interval.low is not None
    assert found.interval.high is not None
    assert found.interval.low < 0.4 < found.interval.high
    assert found.caveats == ("small",)


def test_a_mean_names_the_sample_that_is_no_number() -> None:
    with pytest.raises(NotANumber) as raised:
        mean("a", [1.0, math.inf], "rule")
    assert raised.value.sample == 1


def test_warnings_are_added_to_those_there() -> None:
    first = Outcome("a", 1.0, 1, None, "rule", ("one",))
    assert first.warning("two").caveats == ("one", "two")
    assert first.caveats == ("one",)


def test_lengths_that_differ_are_named() -> None:
    with pytest.raises(ShapesDiffer, match="labels: 2 against 3"):
        require_same_length("labels", 2, 3)
