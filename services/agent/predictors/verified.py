"""List the predictors whose GPU code was never run on a GPU, so that reports can say so.

PyTorch and JAX ran on an NVIDIA H200 (`tests/gpu`). The predictors of LiteRT and OpenVINO offer no
GPU.
"""

from collections.abc import Mapping
from types import MappingProxyType

UNVERIFIED_ON_GPU: Mapping[str, str] = MappingProxyType(
    {
        "onnxruntime": "the CUDA execution provider",
        "tensorflow": "TensorFlow on a GPU",
        "tensorrt": "TensorRT engines",
    }
)
"""The unverified part of a predictor, by framework; remove an entry once it ran on a GPU."""


def unverified_caveat(framework: str, device: str) -> str:
    """Return the caveat of a run on this `device`, cpu or gpu; '' where the code is verified."""
    part = UNVERIFIED_ON_GPU.get(framework, "") if device == "gpu" else ""
    return part and (
        f"unverified: {part} was never run on a GPU by the developers; compare its answers with "
        "a CPU's before you trust its figures"
    )
