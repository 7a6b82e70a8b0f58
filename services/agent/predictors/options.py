"""Check the options that a request gives a predictor, one by one.

Each function takes the `requested` options by name, and the `name` of the one it reads.
"""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from services.agent.errors import BadOption

OPTION_NAMES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "jax": ("threads", "precision", "matmul_precision"),
        "litert": ("threads", "xnnpack"),
        "onnxruntime": (
            "threads", "intra_threads", "inter_threads", "graph_optimization", "mode", "spinning",
            "provider",
        ),
        "openvino": ("threads", "streams", "precision", "performance_hint"),
        "pytorch": (
            "threads", "inter_threads", "precision", "compile", "allow_tf32", "channels_last",
            "graphs", "call", "weights", "inputs", "normalize", "decode",
        ),
        "remote": ("url", "model", "model_version", "timeout_s"),
        "tensorflow": (
            "threads", "intra_threads", "inter_threads", "jit_compile", "precision", "allow_tf32",
            "signature",
        ),
        "tensorrt": ("device_number",),
    }
)  # fmt: skip
"""The options of the shipped predictors, which agents announce without importing a framework."""


def check_known(requested: Mapping[str, Any], framework: str) -> None:
    """Raise BadOption for the first requested option that a shipped predictor does not take."""
    names = OPTION_NAMES[framework]
    for name, value in requested.items():
        if name not in names:
            raise BadOption(name, value, f"one of {', '.join(names)}")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count(requested: Mapping[str, Any], name: str, default: int) -> int:
    """Return `requested[name]`, a whole number from 1 to 1024, or the `default`.

    Raises BadOption.
    """
    value = requested.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
        raise BadOption(name, value, "a whole number from 1 to 1024")
    return value


def flag(requested: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return `requested[name]`, true or false, or the `default`. Raises BadOption."""
    value = requested.get(name, default)
    if not isinstance(value, bool):
        raise BadOption(name, value, "true or false")
    return value


def choice(requested: Mapping[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    """Return `requested[name]`, one of the `allowed` values, or the `default`.

    Raises BadOption.
    """
    value = requested.get(name, default)
    if value not in allowed:
        raise BadOption(name, value, f"one of {', '.join(allowed)}")
    return str(value)
