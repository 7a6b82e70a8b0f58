"""What this machine is: processor, memory, accelerators and the versions of its packages."""

import importlib.metadata
import os
import platform
import socket
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from schemas.agent import Accelerator, Hardware
from services.agent.machine.cuda_facts import cuda_facts
from services.agent.machine.quotas import usable_cores, usable_memory_bytes

_CPU_FACTS = Path("/proc/cpuinfo")


def this_machine() -> Hardware:
    """Return CPU, memory and accelerators, both what this process may use and what the host has."""
    host_bytes = host_memory_bytes()
    accelerators = tuple(nvidia_accelerators())
    return Hardware(
        hostname=socket.gethostname(),
        architecture={"x86_64": "amd64", "aarch64": "arm64"}.get(
            platform.machine(), platform.machine()
        ),
        cpu_model=processor_name(),
        cores=usable_cores(),
        memory_bytes=usable_memory_bytes(host_bytes),
        host_cores=os.cpu_count() or 1,
        host_memory_bytes=host_bytes,
        accelerators=accelerators,
        interconnect=accelerators[0].interconnect if accelerators else "",
    )


def package_version(distribution: str) -> str:
    """Return an installed distribution's version, '' where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


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
                interconnect=_interconnect(pynvml, device),
                driver=driver,
                uuid=_text(pynvml.nvmlDeviceGetUUID(device)),
                **cuda_facts(_text(pynvml.nvmlDeviceGetPciInfo(device).busId)),
            )
    except pynvml.NVMLError:
        return
    finally:
        pynvml.nvmlShutdown()


def _interconnect(nvml: Any, device: Any) -> str:
    """Return nvlink when the GPU's first NVLink is up, else pcie."""
    try:
        return "nvlink" if nvml.nvmlDeviceGetNvLinkState(device, 0) else "pcie"
    except nvml.NVMLError:
        return "pcie"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def accelerator_names(device: str) -> str:
    """Return the names of this machine's GPUs, each once, for runs on device gpu; else ''."""
    if device != "gpu":
        return ""
    return ", ".join(sorted({gpu.name for gpu in nvidia_accelerators()}))


def processor_name() -> str:
    """Return the processor's model name; '' where it is unknown."""
    try:
        lines = _CPU_FACTS.read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def host_memory_bytes() -> int:
    """Return the bytes of this host's memory; 0 where they are unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
