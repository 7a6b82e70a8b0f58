"""The boundary to frameworks and models' own code: which errors come out of it."""

import pytest

from services.agent.errors import AgentError, DeviceLost, OpenFailed, PredictFailed
from services.agent.predictors.boundary import PREDICTING, opening_model


def test_whatever_a_call_raises_fails_the_call_with_its_first_line() -> None:
    with pytest.raises(PredictFailed, match=r"no such axis$") as failure, PREDICTING:
        raise ValueError("no such axis\nand a page of more")
    assert isinstance(failure.value.__cause__, ValueError)


def test_whatever_opening_raises_names_the_model() -> None:
    with (
        pytest.raises(OpenFailed, match="cannot open resnet: MemoryError"),
        opening_model("resnet"),
    ):
        raise MemoryError


@pytest.mark.parametrize("error", [DeviceLost("gone"), PredictFailed("input x is missing")])
def test_the_agents_own_errors_pass(error: AgentError) -> None:
    with pytest.raises(AgentError) as failure, PREDICTING:
        raise error
    assert failure.value is error


def test_what_ends_a_process_passes() -> None:
    with pytest.raises(KeyboardInterrupt), PREDICTING:
        raise KeyboardInterrupt


def test_a_call_that_succeeds_is_left_alone_also_within_another() -> None:
    with PREDICTING, PREDICTING:
        answer = 1
    assert answer == 1
