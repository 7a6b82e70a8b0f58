"""The boundary to frameworks and models' own code: which errors come out of it."""

import pytest

from services.agent.errors import AgentError, DeviceLost, OpenFailed, PredictFailed
from services.agent.predictors.boundary import PREDICTING, opening_model


def test_whatever_a_call_raises_fails_the_call_with_its_first_line() -> None:
    with pytest.raises(PredictFailed, match=r"no such axis$") as failure, PREDICTING:
        raise ValueError("no such axis\nand a page of more")
    assert isinstance(failure.value.__cause__, ValueError)


_ASYNCHRONOUS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, "
    "so the stacktrace below might be incorrect."
)
_CUDA = f"""\
CUDA error: device-side assert triggered
Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/ for more information.
{_ASYNCHRONOUS}
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
_SCRIPTED = "The following operation failed in the TorchScript interpreter.\nTraceback of it:\n"


@pytest.mark.parametrize("text", [_CUDA, f"{_SCRIPTED}RuntimeError: {_CUDA}"])
def test_a_gpu_s_error_gives_its_reason_and_no_advice(text: str) -> None:
    with (
        pytest.raises(PredictFailed, match=r"device-side assert triggered$"),
        PREDICTING,
    ):
        raise RuntimeError(text)


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
