"""What this machine is: processor, memory, accelerators and the versions of its packages."""

import importlib.metadata
import os
import platform
import socket
from dataclasses import asdict
from pathlib import Path

from mlscope.manifests.device_names import is_gpu, vendors_meant
from schemas.agent import Hardware
from services.agent.machine.accelerators import accelerators
from services.agent.machine.kernel_files import text_of
from services.agent.machine.processor_names import features_in, name_in
from services.agent.machine.quotas import usable_cores, usable_memory_bytes
from services.agent.machine.topology import topology

_CPU_FACTS = Path("/proc/cpuinfo")


def this_machine() -> Hardware:
    """Return CPU, memory and accelerators, both what this process may use and what the host has."""
    host_bytes = host_memory_bytes()
    devices, built = accelerators(), topology()
    return Hardware(
        hostname=socket.gethostname(),
        architecture=engine_architecture(),
        cpu_model=processor_name(),
        cores=usable_cores(),
        memory_bytes=usable_memory_bytes(host_bytes),
        host_cores=os.cpu_count() or 1,
        host_memory_bytes=host_bytes,
        **asdict(built),
        cpu_features=features_in(text_of(_CPU_FACTS)),
        accelerators=devices,
        interconnect=devices[0].interconnect if devices else "",
    )


def engine_architecture() -> str:
    """Return this machine's architecture as engines and framework manifests call it."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def package_version(distribution: str) -> str:
    """Return an installed distribution's version, '' where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def accelerator_names(device: str) -> str:
    """Return the names of this machine's GPUs that a `device` means, each once; '' for none.

    They are of one vendor, if the device's name says which.
    """
    if not is_gpu(device):
        return ""
    gpus = [(own.vendor or "nvidia", own) for own in accelerators() if own.kind == "gpu"]
    vendors = {vendor for vendor, _ in gpus}
    meant = vendors_meant(device, vendors) or vendors
    return ", ".join(sorted({gpu.name for vendor, gpu in gpus if vendor in meant}))


def processor_name() -> str:
    """Return the processor's model name; '' where it is unknown."""
    return name_in(text_of(_CPU_FACTS)) or platform.processor()


def host_memory_bytes() -> int:
    """Return the bytes of this host's memory; 0 where they are unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
