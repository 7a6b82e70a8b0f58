"""The accelerators of this machine, as reported by the libraries of their vendors.

Each vendor has one function that yields its accelerators: none if its library, its driver or its
devices are missing. What it raises is logged once, and the search continues with the next vendor.
The function for NVIDIA is verified on hardware; the others follow the documentation of their
libraries, and no machine of these vendors has run them yet:

- AMD: amdsmi, https://rocm.docs.amd.com/projects/amdsmi/en/latest/reference/amdsmi-py-api.html
- Intel: dpctl, https://intelpython.github.io/dpctl/latest/api_reference/dpctl/index.html
- Apple: Metal by PyObjC, https://developer.apple.com/documentation/metal/mtldevice
"""

import logging
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from schemas.agent import Accelerator
from services.agent.machine.cuda_facts import cuda_facts

_UNKNOWN = ("", "N/A")
_log = logging.getLogger(__name__)


def accelerators() -> tuple[Accelerator, ...]:
    """Return the accelerators of all vendors, those of NVIDIA first."""
    gpus: list[Accelerator] = []
    for find in SEARCHES:
        try:
            gpus.extend(find())
        except Exception as error:  # noqa: BLE001 (whatever a vendor's library raises)
            _warn_once(find.__name__, f"{type(error).__name__}: {error}")
    return tuple(gpus)


def nvidia_accelerators() -> Iterator[Accelerator]:
    """Yield NVIDIA GPUs by NVML; none where its binding or its driver is missing.

    With cuda-python they have CUDA's attributes as well.
    """
    try:
        pynvml: Any = import_module("pynvml")
    except ImportError:
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = _text(pynvml.nvmlDeviceGetName(device))
            yield Accelerator(
                name=name,
                vendor="nvidia",
                memory_bytes=pynvml.nvmlDeviceGetMemoryInfo(device).total,
                interconnect=_nvidia_interconnect(pynvml, device),
                driver=driver,
                uuid=_text(pynvml.nvmlDeviceGetUUID(device)),
                **cuda_facts(_text(pynvml.nvmlDeviceGetPciInfo(device).busId)),
            )
    except pynvml.NVMLError:
        return
    finally:
        pynvml.nvmlShutdown()


def amd_accelerators() -> Iterator[Accelerator]:
    """Yield AMD GPUs by amdsmi; none where it or the driver `amdgpu` is missing."""
    smi = _library("amdsmi")
    if smi is None:
        return
    try:
        smi.amdsmi_init()
    except smi.AmdSmiException:
        return
    try:
        for device in smi.amdsmi_get_processor_handles():
            facts = smi.amdsmi_get_gpu_asic_info(device)
            units = facts.get("num_compute_units", facts.get("num_of_compute_units"))
            memory_bytes = smi.amdsmi_get_gpu_memory_total(device, smi.AmdSmiMemoryType.VRAM)
            yield Accelerator(
                name=_known_text(facts.get("market_name")) or "AMD GPU",
                vendor="amd",
                memory_bytes=int(memory_bytes),
                driver=_known_text(smi.amdsmi_get_gpu_driver_info(device).get("driver_version")),
                uuid=_known_text(smi.amdsmi_get_gpu_device_uuid(device)),
                multiprocessors=units if isinstance(units, int) else 0,
            )
    except smi.AmdSmiException:
        return
    finally:
        smi.amdsmi_shut_down()


def intel_accelerators() -> Iterator[Accelerator]:
    """Yield Intel GPUs by dpctl, through Level Zero; none where either is missing."""
    dpctl = _library("dpctl")
    if dpctl is None:
        return
    for device in dpctl.get_devices(backend="level_zero", device_type="gpu"):
        yield Accelerator(
            name=device.name,
            vendor="intel",
            memory_bytes=device.global_mem_size,
            driver=device.driver_version,
            multiprocessors=device.max_compute_units,
        )


def apple_accelerators() -> Iterator[Accelerator]:
    """Yield Apple's GPUs by Metal; none where PyObjC is missing, as on any other system.

    The memory is what the GPU should use at most of the memory that it shares with the processor.
    """
    metal = _library("Metal")
    if metal is None:
        return
    for device in metal.MTLCopyAllDevices():
        yield Accelerator(
            name=str(device.name()),
            vendor="apple",
            memory_bytes=int(device.recommendedMaxWorkingSetSize()),
            interconnect="unified" if device.hasUnifiedMemory() else "pcie",
        )


SEARCHES: tuple[Callable[[], Iterator[Accelerator]], ...] = (
    nvidia_accelerators,
    amd_accelerators,
    intel_accelerators,
    apple_accelerators,
)


@cache
def _warn_once(search: str, cause: str) -> None:
    """Log that a `search` of this process ended by a `cause`."""
    _log.warning("a search for accelerators failed", extra={"search": search, "cause": cause})


def _library(name: str) -> Any:
    """Return a vendor's library, None where it cannot be loaded.

    Without its own library, amdsmi raises KeyError or OSError.
    """
    try:
        return import_module(name)
    except (ImportError, KeyError, OSError):
        return None


def _nvidia_interconnect(nvml: Any, device: Any) -> str:
    """Return nvlink when the GPU's first NVLink is up, else pcie."""
    try:
        return "nvlink" if nvml.nvmlDeviceGetNvLinkState(device, 0) else "pcie"
    except nvml.NVMLError:
        return "pcie"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _known_text(value: object) -> str:
    """Return a text of amdsmi, '' for what it does not know."""
    return "" if value is None or str(value) in _UNKNOWN else str(value)
