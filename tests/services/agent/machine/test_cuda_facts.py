"""Without cuda-python, a driver or the device, a GPU's CUDA facts are just not there."""

import sys
from importlib.util import find_spec

import pytest

from services.agent.machine.cuda_facts import cuda_facts


def test_without_cuda_python_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert cuda_facts("00000000:00:00.0") == {}


@pytest.mark.skipif(find_spec("cuda") is None, reason="cuda-python is not installed")
def test_an_address_without_a_gpu_has_none() -> None:
    assert cuda_facts("0000ffff:1f:1f.7") == {}
