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


@pytest.mark.parametrize(
    ("device", "place"),
    [("gpu", "cuda"), ("rocm", "cuda"), ("cuda:1", "cuda:1"), ("xpu", "xpu"), ("mps", "mps")],
)
def test_a_device_has_the_name_that_pytorch_gives_it(device: str, place: str) -> None:
    assert options_of({}, device, has_gpu=True).device == place


@pytest.mark.parametrize("device", ["gpu", "rocm", "xpu", "mps"])
def test_a_gpu_that_pytorch_does_not_see_is_refused(device: str) -> None:
    with pytest.raises(BadOption, match="this PyTorch sees no GPU"):
        options_of({}, device, has_gpu=False)


@pytest.mark.parametrize("device", ["xpu", "mps"])
def test_what_only_cuda_has_is_refused_elsewhere(device: str) -> None:
    with pytest.raises(BadOption, match="graphs"):
        options_of({"graphs": True}, device, has_gpu=True)
