"""What the name of a device means: `gpu`, `cuda`, or a name of a predictor's own. Pure."""

from collections.abc import Collection

from schemas.agent import Hardware

GPU_NAMES = ("gpu", "cuda", "rocm", "xpu", "mps", "tensorrt", "dml", "metal")
"""Names of devices that are GPUs."""
_VENDORS = {"cuda": "nvidia", "rocm": "amd", "xpu": "intel", "mps": "apple"}
"""The only vendor whose GPUs a name means."""


def is_gpu(device: str) -> bool:
    """Tell whether a `device` is a GPU: `gpu`, `cuda`, `cuda:1` are, `fpga` is not."""
    return device.strip().lower().partition(":")[0] in GPU_NAMES


def gpu_vendors(hardware: Hardware) -> frozenset[str]:
    """Return the vendors of a machine's GPUs; NVIDIA where an agent of release 0.1 names none."""
    return frozenset({gpu.vendor or "nvidia" for gpu in hardware.accelerators if gpu.kind == "gpu"})


def vendors_meant(device: str, vendors: Collection[str]) -> frozenset[str]:
    """Return the vendors whose GPUs a runtime's name of a `device` means.

    `vendors` are those of the machine's GPUs. `gpu` means NVIDIA's if the machine has one: a build
    for the GPUs of another vendor has a name of its own for them. Otherwise it means those of the
    only vendor, and none if there are two.
    """
    name = device.strip().lower().partition(":")[0]
    if name in _VENDORS:
        return frozenset({_VENDORS[name]})
    if name not in GPU_NAMES:
        return frozenset()
    if name in ("gpu", "tensorrt") and "nvidia" in vendors:
        return frozenset({"nvidia"})
    return frozenset(vendors) if len(frozenset(vendors)) == 1 else frozenset()


def is_device(device: str, need: str, vendors: Collection[str] = ()) -> bool:
    """Tell whether a runtime's name of a `device` meets a `need`.

    `gpu` is any GPU; `cuda` is one of NVIDIA, `rocm` of AMD, `xpu` of Intel and `mps` of Apple,
    where `vendors` are those of the machine's GPUs. Only the same name meets any other need.
    """
    own, lower = device.lower(), need.strip().lower()
    if lower == "gpu":
        return own in GPU_NAMES
    return own == lower or (own == "gpu" and _VENDORS.get(lower) in vendors_meant(own, vendors))
