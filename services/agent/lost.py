"""Devices that are gone for a process: what its frameworks say of them. Pure.

Errors after which a process can use its GPU no more, whatever it does (CUDA Runtime API, "the
process must be terminated and relaunched"): by their texts, and by their names in the driver's API.
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
    *("ILLEGAL_ADDRESS", "ILLEGAL_INSTRUCTION", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "ASSERT"),
    *("MISALIGNED_ADDRESS", "INVALID_PC", "HARDWARE_STACK_ERROR", "ECC_UNCORRECTABLE"),
    *("NVLINK_UNCORRECTABLE", "INVALID_ADDRESS_SPACE", "NO_DEVICE", "DEVICE_UNAVAILABLE"),
)
_LOST = re.compile("|".join((*_TEXTS, *(f"CUDA_ERROR_{name}" for name in _NAMES))), re.IGNORECASE)


def tells_of_lost_device(error: str) -> bool:
    """Say whether an error's text is of a device that its process can use no more."""
    return _LOST.search(error) is not None
