"""Recognizes the loss of a device by the error text of a framework. Pure.

After such an error a process can't use its GPU any more (CUDA Runtime API: "the process must be
terminated and relaunched"). Known are the texts, and the names of the errors in the driver's API.
"""

import re

_TEXTS = (
    "illegal memory access",
    "illegal instruction was encountered",
    "unspecified launch failure",
    "launch timed out and was terminated",
    "device-side assert triggered",
    "misaligned address",
    "invalid program counter",
    "hardware stack error",
    "uncorrectable (ECC|NVLink) error",
    "operation not supported on global/shared address space",
    "no CUDA-capable device",
    r"CUDA-capable device\(s\) is/are busy or unavailable",
    "GPU (is|has been) lost|fallen off the bus",
)
_NAMES = (
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "LAUNCH_FAILED",
    "LAUNCH_TIMEOUT",
    "ASSERT",
    "MISALIGNED_ADDRESS",
    "INVALID_PC",
    "HARDWARE_STACK_ERROR",
    "ECC_UNCORRECTABLE",
    "NVLINK_UNCORRECTABLE",
    "INVALID_ADDRESS_SPACE",
    "NO_DEVICE",
    "DEVICE_UNAVAILABLE",
)
_DEVICE_LOSS = re.compile(
    "|".join((*_TEXTS, *(f"CUDA_ERROR_{name}" for name in _NAMES))), re.IGNORECASE
)


def is_device_loss(error: str) -> bool:
    """Return whether an error text says that this process can't use its device any more."""
    return _DEVICE_LOSS.search(error) is not None
