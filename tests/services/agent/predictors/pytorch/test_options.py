"""PyTorch's options, without PyTorch."""

import pytest

from services.agent.errors import BadOption
from services.agent.predictors.pytorch.options import options_of


@pytest.mark.parametrize(("given", "weights"), [({}, ""), ({"weights": "random"}, "random")])
def test_weights_may_be_random(given: dict[str, str], weights: str) -> None:
    assert options_of(given, "cpu", has_gpu=False).by_name()["weights"] == weights


def test_weights_are_nothing_else() -> None:
    with pytest.raises(BadOption, match="weights"):
        options_of({"weights": "best"}, "cpu", has_gpu=False)


def test_inputs_may_be_on_a_gpu_before_a_call_and_not_on_a_cpu() -> None:
    assert options_of({}, "gpu", has_gpu=True).inputs == "host"
    assert options_of({"inputs": "device"}, "gpu", has_gpu=True).inputs == "device"
    for device, given in (("cpu", "device"), ("gpu", "disk")):
        with pytest.raises(BadOption, match="inputs"):
            options_of({"inputs": given}, device, has_gpu=True)
