"""Names of frameworks as people type them, and as predictors have them. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator

FRAMEWORKS = (
    "jax",
    "litert",
    "onnxruntime",
    "openvino",
    "pytorch",
    "remote",
    "tensorflow",
    "tensorrt",
)
"""The frameworks with a predictor of mlscope; packages add others."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "ai-edge-litert": "litert",
        "onnx": "onnxruntime",
        "onnx-runtime": "onnxruntime",
        "ort": "onnxruntime",
        "tensorflow-lite": "litert",
        "tf": "tensorflow",
        "tflite": "litert",
        "torch": "pytorch",
        "trt": "tensorrt",
    }
)
"""Other names of frameworks, in lower case."""


def predictors_name(framework: str) -> str:
    """Return the name of a framework's predictor: `tflite` is litert; unknown names stay."""
    return ALIASES.get(framework.strip().lower(), framework)


FrameworkName = Annotated[str, AfterValidator(predictors_name)]
"""A framework's name, by any of its names."""


def framework_of(value: object) -> object:
    """Return `name:constraint` as the fields of a FrameworkNeed."""
    if isinstance(value, str):
        name, _, version = value.partition(":")
        return {"name": name, "version": version}
    return value
