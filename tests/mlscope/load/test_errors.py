"""What went wrong with a load, in words and in fields."""

import pytest

from mlscope.load.errors import (
    InvalidParameter,
    LoadError,
    PacerDied,
    ScenarioError,
    UnknownParameter,
    UnknownScenario,
)


def test_an_unknown_scenario_tells_what_there_is() -> None:
    error = UnknownScenario("posson", ("online", "poisson"))
    assert str(error) == "no scenario 'posson'; known scenarios: online, poisson"
    assert isinstance(error, ScenarioError)


def test_a_bad_parameter_tells_where_what_and_why() -> None:
    error = InvalidParameter("online", "queries", -1, "1 or more")
    assert str(error) == "online.queries: found -1, allowed is 1 or more"
    assert (error.scenario, error.field, error.actual) == ("online", "queries", -1)


def test_an_unknown_parameter_tells_which_there_are() -> None:
    error = UnknownParameter("online", "rate_hz", 20, ("queries", "sample_seed"))
    assert str(error) == "online.rate_hz: no such parameter; known parameters: queries, sample_seed"
    assert (error.field, error.actual, error.allowed) == ("rate_hz", 20, "queries, sample_seed")
    assert isinstance(error, InvalidParameter)


@pytest.mark.parametrize(
    ("exit_code", "message", "text"),
    [
        (None, "", "pacer stopped responding after 3 of 9 queries"),
        (-9, "", "pacer ended with code -9 after 3 of 9 queries"),
        (0, "", "pacer ended with code 0 after 3 of 9 queries"),
        (
            1,
            "OSError: no memory",
            "pacer ended with code 1 after 3 of 9 queries OSError: no memory",
        ),
    ],
)
def test_a_dead_pacer_tells_how_far_it_came(exit_code: int | None, message: str, text: str) -> None:
    error = PacerDied(3, 9, exit_code, message)
    assert str(error) == text
    assert isinstance(error, LoadError)
