"""List the predictors whose GPU code was never run on a GPU, so that reports can say so.

PyTorch, JAX and ONNX Runtime ran on an NVIDIA H200 (`tests/gpu`). The predictors of LiteRT and
OpenVINO offer no GPU.
"""

from collections.abc import Mapping
from types import MappingProxyType

UNVERIFIED_ON_GPU: Mapping[str, str] = MappingProxyType(
    {
        "tensorflow": "TensorFlow on a GPU",
        "tensorrt": "TensorRT engines",
    }
)
"""The unverified part of a predictor, by framework; remove an entry once it ran on a GPU."""

UNVERIFIED_DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "rocm": "PyTorch for AMD's GPUs",
        "xpu": "PyTorch for Intel's GPUs",
        "mps": "PyTorch for Apple's GPUs",
    }
)
"""The unverified part of a predictor, by the name of a device."""


def unverified_caveat(framework: str, device: str) -> str:
    """Return the caveat of a `framework`'s run on this `device`; '' where the code is verified."""
    part = UNVERIFIED_DEVICES.get(device, "")
    if device == "gpu":
        part = UNVERIFIED_ON_GPU.get(framework, "")
    return part and (
        f"unverified: {part} was never run on a GPU by the developers; compare its answers with "
        "a CPU's before you trust its figures"
    )
