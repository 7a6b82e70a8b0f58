"""What this machine is and can run, found without importing a framework."""

import importlib.metadata
import os
import platform
import socket
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from schemas.agent import Accelerator, Announcement, CollectorFacts, Hardware, Runtime
from schemas.level import Level
from services.agent.allowances import NO_MORE, Allowances
from services.agent.collectors import availability_of, collector_names
from services.agent.cuda_facts import cuda_facts
from services.agent.predictors import SHIPPED, predictor_names
from services.agent.quotas import usable_cores, usable_memory_bytes

_CPU_FACTS = Path("/proc/cpuinfo")
_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "jax": ("jax",),
    "litert": ("ai-edge-litert",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "openvino": ("openvino",),
    "pytorch": ("torch",),
    "remote": (),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "tensorrt": ("tensorrt",),
}
"""Any of these distributions brings a framework; a shipped predictor without any needs none."""
_WHEN_NAMED = frozenset({"remote"})
"""Not offered unless the agent's owner names it: its figures are another machine's."""
_DEEPEST: Mapping[str, Level] = dict.fromkeys(
    ("jax", "onnxruntime", "openvino", "pytorch", "tensorflow"), Level.FRAMEWORK
)
_GPU_DISTRIBUTIONS = frozenset({"onnxruntime-gpu", "tensorflow", "tensorrt", "torch"})
_JAX_GPU_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")


def announcement(
    agent: str,
    incarnation: str,
    *,
    image: str = "",
    labels: Mapping[str, str] | None = None,
    predictors: tuple[str, ...] = (),
    allowed: Allowances = NO_MORE,
) -> Announcement:
    """Return what an agent says of itself; `predictors` limits what it offers."""
    hardware = this_machine()
    return Announcement(
        agent=agent,
        incarnation=incarnation,
        hardware=hardware,
        runtimes=tuple(installed_runtimes(predictors, hardware.accelerators)),
        collectors=tuple(known_collectors()),
        image=image,
        labels=dict(labels or {}),
        allows_inline_python=allowed.inline is not None,
        builders=tuple(allowed.builders),
        remote_hosts=allowed.remote_hosts,
        mlscope_version=package_version("mlscope"),
        python_version=platform.python_version(),
    )


def known_collectors() -> Iterator[CollectorFacts]:
    """Yield every collector with what it gives on this machine and why no more."""
    for name in collector_names():
        found = availability_of(name)
        yield CollectorFacts(
            name=name,
            levels=found.levels,
            reason=found.reason,
            devices=found.devices,
            frameworks=found.frameworks,
        )


def this_machine() -> Hardware:
    """Return CPU, memory and accelerators: what this process may use, and what the host has."""
    host_bytes = _memory_bytes()
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


def installed_runtimes(
    wanted: tuple[str, ...], accelerators: tuple[Accelerator, ...]
) -> Iterator[Runtime]:
    """Yield the frameworks that a predictor is known for and that are installed.

    All of them unless `wanted` names some; one that runs no model on this machine only by name.
    """
    for name in predictor_names():
        found = _distribution_of(name)
        if found is None or (name not in wanted if wanted else name in _WHEN_NAMED):
            continue
        distribution, version = found
        gpu = bool(accelerators) and _serves_gpu(distribution, version)
        yield Runtime(
            framework=name,
            version=version,
            devices=("cpu", "gpu") if gpu else ("cpu",),
            deepest_level=_DEEPEST.get(name, Level.MODEL),
        )


def _serves_gpu(distribution: str, version: str) -> bool:
    """Whether a build has GPU code: PyTorch's builds without say so in their version."""
    if distribution == "jax":
        return any(package_version(plugin) for plugin in _JAX_GPU_PLUGINS)
    return distribution in _GPU_DISTRIBUTIONS and not version.endswith("+cpu")


def package_version(distribution: str) -> str:
    """Return an installed distribution's version, '' when it is only on the path."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _distribution_of(framework: str) -> tuple[str, str] | None:
    """Return (distribution, version) that brings a framework.

    A predictor of another package needs none: without a distribution called like its framework it
    counts as installed with mlscope's version. A shipped one not listed above never is.
    """
    is_shipped = framework in SHIPPED
    named = _DISTRIBUTIONS.get(framework, () if is_shipped else (framework,))
    for distribution in named:
        if version := package_version(distribution):
            return distribution, version
    if is_shipped and (named or framework not in _DISTRIBUTIONS):
        return None
    return framework, package_version("mlscope") or "0"


def nvidia_accelerators() -> Iterator[Accelerator]:
    """Yield NVIDIA GPUs by NVML; none where its binding or its driver is missing.

    What CUDA says of them is there where cuda-python is.
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
    """Return nvlink when its first link is up, else pcie."""
    try:
        return "nvlink" if nvml.nvmlDeviceGetNvLinkState(device, 0) else "pcie"
    except nvml.NVMLError:
        return "pcie"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def accelerator_names(device: str) -> str:
    """Return the names of this machine's GPUs, each once, for runs on one; '' for others."""
    if device != "gpu":
        return ""
    return ", ".join(sorted({each.name for each in nvidia_accelerators()}))


def processor_name() -> str:
    """Return what the processor calls itself; '' where nothing tells."""
    try:
        lines = _CPU_FACTS.read_text().splitlines()
    except OSError:
        return platform.processor()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.processor())


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
