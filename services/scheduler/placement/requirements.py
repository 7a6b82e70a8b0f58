"""What manifests require of an agent: hardware, software, container image. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from mlscope.manifests.constraints import constraint_of, satisfies, version_order
from mlscope.manifests.device_names import is_gpu
from mlscope.manifests.errors import BadConstraint
from schemas.agent import Announcement, Hardware
from schemas.manifest import (
    FrameworkManifest,
    HardwareManifest,
    SoftwareManifest,
)
from schemas.request import SystemNeed
from services.scheduler.placement.naming import architecture_of, is_same, plain

OF_MANIFEST = "manifest"
"""The image a request may need: the one that the framework's manifest gives."""


def hardware_mismatches(manifest: HardwareManifest, hardware: Hardware) -> Iterator[str]:
    """Yield what a machine lacks of a hardware manifest; empty fields require nothing.

    Compared are of `cpu` the `model` (part of the name) and `cores` (at least), and of each
    accelerator `name`, `interconnect` (parts), `memory_bytes` and `count` (at least).
    """
    of = f"hardware {manifest.name}:"
    architecture = architecture_of(manifest.architecture)
    if architecture and architecture != architecture_of(hardware.architecture):
        yield f"{of} architecture {hardware.architecture}, wanted {manifest.architecture}"
    if hardware.memory_bytes < manifest.memory_bytes:
        yield f"{of} memory of {hardware.memory_bytes} bytes, wanted {manifest.memory_bytes}"
    model = str(manifest.cpu.get("model", ""))
    if plain(model) not in plain(hardware.cpu_model):
        yield f"{of} CPU {hardware.cpu_model or 'unknown'}, wanted {model}"
    if hardware.cores < _number(manifest.cpu.get("cores")):
        yield f"{of} {hardware.cores} cores, wanted {manifest.cpu['cores']}"
    link = manifest.interconnect
    if plain(link) not in plain(hardware.interconnect):
        yield f"{of} interconnect {hardware.interconnect or 'unknown'}, wanted {link}"
    for need in manifest.accelerators:
        fitting = [
            accelerator
            for accelerator in hardware.accelerators
            if plain(str(need.get("name", ""))) in plain(accelerator.name)
            and plain(str(need.get("interconnect", ""))) in plain(accelerator.interconnect)
            and accelerator.memory_bytes >= _number(need.get("memory_bytes"))
        ]
        if len(fitting) < max(1, _number(need.get("count"))):
            fields = ", ".join(f"{name} {value}" for name, value in need.items())
            yield f"{of} {accelerator_names(hardware)}, wanted accelerator {fields}"


def accelerator_names(hardware: Hardware) -> str:
    """Return the names of a machine's accelerators as a text."""
    return ", ".join(own.name for own in hardware.accelerators) or "no accelerator"


def accelerator_mismatches(hardware: Hardware, need: SystemNeed) -> Iterator[str]:
    """Yield what a machine's accelerators lack of a need: name, memory or interconnect."""
    name = plain(need.accelerator)
    fitting = [own for own in hardware.accelerators if name in plain(own.name)]
    if name and not fitting:
        yield f"{accelerator_names(hardware)}, wanted accelerator {need.accelerator}"
        return
    largest_bytes = max((accelerator.memory_bytes for accelerator in fitting), default=0)
    if largest_bytes < need.accelerator_memory_bytes:
        yield f"accelerator memory {shortage_text(largest_bytes, need.accelerator_memory_bytes)}"
    link = plain(need.interconnect)
    links = {hardware.interconnect, *(own.interconnect for own in fitting)} - {""}
    if link and not any(link in plain(own) for own in links):
        yield f"interconnect {', '.join(sorted(links)) or 'unknown'}, wanted {need.interconnect}"


def shortage_text(own_bytes: int, needed_bytes: int) -> str:
    """Return two sizes, in GiB or, where these look the same, in bytes."""
    own, needed = (f"{size_bytes / (1 << 30):.1f} GiB" for size_bytes in (own_bytes, needed_bytes))
    if own == needed:
        own, needed = f"{own_bytes} bytes", f"{needed_bytes} bytes"
    return f"{own if own_bytes > 0 else 'unknown'}, wanted {needed}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def software_mismatches(manifest: SoftwareManifest, agent: Announcement) -> Iterator[str]:
    """Yield what an agent lacks of a software manifest: its container, and versions of packages.

    Agents announce the versions of `python`, `mlscope` and of their frameworks. The manifest's
    `environment` is recorded, and not compared.
    """
    of = f"software {manifest.name}:"
    if manifest.container and manifest.container != agent.image:
        yield f"{of} image {agent.image or 'not known'}, wanted {manifest.container}"
    versions = {"python": agent.python_version, "mlscope": agent.mlscope_version}
    versions |= {runtime.framework.lower(): runtime.version for runtime in agent.runtimes}
    for package, constraint in manifest.packages.items():
        version = versions.get(package.lower(), "")
        if not version or not _fits(version, constraint):
            yield f"{of} {package} {version or 'not known'}, wanted {constraint or 'any'}"


def _fits(version: str, constraint: str) -> bool:
    try:
        return satisfies(version, constraint_of(constraint))
    except BadConstraint:
        return version == constraint


def machine_mismatches(agent: Announcement, need: SystemNeed) -> Iterator[str]:
    """Yield what an agent's machine lacks of a need, except its device: runtimes have devices."""
    hardware = agent.hardware
    architecture = architecture_of(need.architecture)
    if architecture and architecture != architecture_of(hardware.architecture):
        yield f"architecture {hardware.architecture}, wanted {need.architecture}"
    if need.memory_bytes and hardware.memory_bytes < need.memory_bytes:
        yield f"memory {shortage_text(hardware.memory_bytes, need.memory_bytes)}"
    if need.accelerator or need.accelerator_memory_bytes or need.interconnect:
        yield from accelerator_mismatches(hardware, need)
    for label, value in need.labels.items():
        own = agent.labels.get(label)
        if own != value:
            has = "no such label" if own is None else f"{label}={own}"
            yield f"{has}, wanted {label}={value}"
    if isinstance(need.hardware, HardwareManifest):
        yield from hardware_mismatches(need.hardware, hardware)
    if isinstance(need.software, SoftwareManifest):
        yield from software_mismatches(need.software, agent)


def framework_manifest_of(
    agent: Announcement,
    framework: str,
    version: str,
    device: str,
    frameworks: Iterable[FrameworkManifest],
) -> FrameworkManifest | None:
    """Return the manifest of an agent's build of a framework, or None where none is published.

    Of the manifests in `frameworks` whose name is `framework` and whose constraint takes `version`,
    the best gives the very image that the agent runs in for its architecture and `device`; then
    the newest counts.
    """
    fitting = [
        manifest
        for manifest in frameworks
        if is_same(manifest.name, framework) and _fits(version, manifest.version)
    ]

    def rank(manifest: FrameworkManifest) -> tuple[bool, Any]:
        is_its_image = bool(agent.image) and agent.image == container_of(manifest, agent, device)
        return is_its_image, version_order(manifest.version)

    return max(fitting, key=rank, default=None)


def container_of(manifest: FrameworkManifest, agent: Announcement, device: str) -> str:
    """Return the image that `manifest` gives for an agent's architecture and a `device`, or ''."""
    architecture = architecture_of(agent.hardware.architecture)
    kind = "gpu" if is_gpu(device) else device.strip().lower() or "cpu"
    for name, images in manifest.containers.items():
        if architecture_of(name) == architecture:
            return images.get(device.lower()) or images.get(kind, "")
    return ""


def image_mismatches(
    need: str, agent: Announcement, manifest: FrameworkManifest | None, device: str
) -> Iterator[str]:
    """Yield why an agent's image does not meet a need.

    `need` is the name of an image, '' for any, or `manifest` for the one that `manifest` gives for
    the agent's architecture and `device`.
    """
    if not need:
        return
    has = f"image {agent.image or 'not known'}"
    if need != OF_MANIFEST:
        if need != agent.image:
            yield f"{has}, wanted {need}"
        return
    if manifest is None:
        yield f"{has}, and no framework manifest of its version is published"
        return
    image = container_of(manifest, agent, device)
    if not image or image != agent.image:
        yield (
            f"{has}, framework manifest {manifest.name} {manifest.version} gives "
            f"{image or 'none'} for {agent.hardware.architecture} {device}"
        )
