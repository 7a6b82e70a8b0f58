"""What a machine says of its GPU: NVML's facts and, by the PCI address, those of CUDA's driver."""

import pytest

pytest.importorskip("torch")

import torch

from services.agent.machine.accelerators import nvidia_accelerators

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none")


def test_the_facts_are_those_that_pytorch_knows() -> None:
    pytest.importorskip("pynvml")
    pytest.importorskip("cuda.bindings.driver")
    (found, *_) = nvidia_accelerators()
    known = torch.cuda.get_device_properties(0)
    assert found.name == known.name
    assert found.compute_capability == f"{known.major}.{known.minor}"
    assert found.multiprocessors == known.multi_processor_count
    assert found.l2_bytes == known.L2_cache_size
    assert found.memory_bytes >= known.total_memory
    assert found.driver
