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
