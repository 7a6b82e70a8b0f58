"""NVML and a GPU's handle, where the package, the driver and the GPU are there."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def nvml_and_device(device_of: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return NVML, begun, and the handle that `device_of` gets from it.

    (None, None) where the package, the driver or that GPU is missing. The caller ends the use of
    NVML by `nvmlShutdown`.
    """
    try:
        nvml: Any = import_module("pynvml")
        nvml.nvmlInit()
    except ImportError:
        return None, None
    except nvml.NVMLError:  # there is no driver
        return None, None
    try:
        return nvml, device_of(nvml)
    except nvml.NVMLError:
        nvml.nvmlShutdown()
        return None, None
