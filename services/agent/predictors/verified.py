"""Which predictors' GPU paths were never run on a GPU: written and guarded, their figures doubted.

PyTorch and JAX ran on an NVIDIA H200 (`tests/gpu`); LiteRT and OpenVINO offer no GPU here.
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
"""What of each predictor is unverified, by framework; one is taken out once it ran."""


def doubt_of(framework: str, device: str) -> str:
    """Return what a reader of a run must know of the path it took; '' of one that was verified."""
    part = UNVERIFIED_ON_GPU.get(framework, "") if device == "gpu" else ""
    return part and (
        f"unverified: {part} was written without a GPU to run it on;"
        " compare its answers with a CPU's before trusting its figures"
    )
