"""What manifests ask of an agent: hardware, software, containers, and what a model brings. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from mlscope.manifests.constraints import constraint_of, newest_first, satisfies
from mlscope.manifests.errors import BadConstraint
from schemas.agent import Announcement, Hardware
from schemas.manifest import (
    CODE_FIELDS,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    SoftwareManifest,
)
from services.scheduler.naming import architecture_of, is_same, plain

OF_MANIFEST = "manifest"
"""The image a request may need: the one that the framework's manifest gives."""


def hardware_against(manifest: HardwareManifest, hardware: Hardware) -> Iterator[str]:
    """Yield what a machine lacks of a hardware manifest; empty fields ask for nothing.

    Of `cpu` are weighed `model` (a part of its name) and `cores` (at least); of each accelerator
    `name`, `interconnect` (parts), `memory_bytes` and `count` (at least).
    """
    of = f"hardware {manifest.name}:"
    wanted = architecture_of(manifest.architecture)
    if wanted and wanted != architecture_of(hardware.architecture):
        yield f"{of} architecture {hardware.architecture}, wanted {manifest.architecture}"
    if hardware.memory_bytes < manifest.memory_bytes:
        yield f"{of} memory of {hardware.memory_bytes} bytes, wanted {manifest.memory_bytes}"
    model = str(manifest.cpu.get("model", ""))
    if plain(model) not in plain(hardware.cpu_model):
        yield f"{of} CPU {hardware.cpu_model or 'unknown'}, wanted {model}"
    if hardware.cores < _number(manifest.cpu.get("cores")):
        yield f"{of} {hardware.cores} cores, wanted {manifest.cpu['cores']}"
    wish = manifest.interconnect
    if plain(wish) not in plain(hardware.interconnect):
        yield f"{of} interconnect {hardware.interconnect or 'unknown'}, wanted {wish}"
    for each in manifest.accelerators:
        yield from (f"{of} {reason}" for reason in _accelerators_against(each, hardware))


def _accelerators_against(wanted: dict[str, Any], hardware: Hardware) -> Iterator[str]:
    fitting = [
        each
        for each in hardware.accelerators
        if plain(str(wanted.get("name", ""))) in plain(each.name)
        and plain(str(wanted.get("interconnect", ""))) in plain(each.interconnect)
        and each.memory_bytes >= _number(wanted.get("memory_bytes"))
    ]
    if len(fitting) < max(1, _number(wanted.get("count"))):
        has = ", ".join(each.name for each in hardware.accelerators) or "no accelerator"
        wish = ", ".join(f"{name} {value}" for name, value in wanted.items())
        yield f"{has}, wanted accelerator {wish}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def software_against(manifest: SoftwareManifest, known: Announcement) -> Iterator[str]:
    """Yield what an agent lacks of a software manifest: its container, and versions of packages.

    Agents say the versions of `python`, `mlscope` and of their frameworks. Its `environment` is
    recorded, and not compared.
    """
    of = f"software {manifest.name}:"
    if manifest.container and manifest.container != known.image:
        yield f"{of} image {known.image or 'not known'}, wanted {manifest.container}"
    has = {"python": known.python_version, "mlscope": known.mlscope_version}
    has |= {runtime.framework.lower(): runtime.version for runtime in known.runtimes}
    for package, wanted in manifest.packages.items():
        version = has.get(package.lower(), "")
        if not version or not _fits(version, wanted):
            yield f"{of} {package} {version or 'not known'}, wanted {wanted or 'any'}"


def _fits(version: str, wanted: str) -> bool:
    try:
        return satisfies(version, constraint_of(wanted))
    except BadConstraint:
        return version == wanted


def framework_manifest_of(
    known: Announcement,
    framework: str,
    version: str,
    device: str,
    frameworks: Iterable[FrameworkManifest],
) -> FrameworkManifest | None:
    """Return the manifest of the build an agent has: of its version, best with its very image."""
    fitting = [
        each
        for each in frameworks
        if is_same(each.name, framework) and _fits(version, each.version)
    ]

    def rank(manifest: FrameworkManifest) -> tuple[bool, Any]:
        is_its_image = bool(known.image) and known.image == container_of(manifest, known, device)
        return is_its_image, newest_first(manifest.version)

    return max(fitting, key=rank, default=None)


def container_of(manifest: FrameworkManifest, known: Announcement, device: str) -> str:
    """Return the image a manifest gives for an agent's architecture and device, '' for none."""
    architecture = architecture_of(known.hardware.architecture)
    kind = "cpu" if device.lower() in ("", "cpu") else "gpu"
    for name, images in manifest.containers.items():
        if architecture_of(name) == architecture:
            return images.get(device.lower()) or images.get(kind, "")
    return ""


def image_against(
    wanted: str, known: Announcement, manifest: FrameworkManifest | None, device: str
) -> Iterator[str]:
    """Yield why an agent's image is not the one wanted: a name, or `manifest`; '' is any."""
    if not wanted:
        return
    has = f"image {known.image or 'not known'}"
    if wanted != OF_MANIFEST:
        if wanted != known.image:
            yield f"{has}, wanted {wanted}"
        return
    if manifest is None:
        yield f"{has}, and no framework manifest of its version is published"
        return
    given = container_of(manifest, known, device)
    if not given or given != known.image:
        where = f"{known.hardware.architecture} {device}"
        yield (
            f"{has}, framework manifest {manifest.name} {manifest.version} gives "
            f"{given or 'none'} for {where}"
        )


def brings_code(model: ModelManifest) -> bool:
    """Tell whether a model brings inline Python."""
    return any(getattr(model, field) for field in CODE_FIELDS)


def brought_against(known: Announcement, model: ModelManifest) -> Iterator[str]:
    """Yield what a model brings that an agent's owner does not allow: code, a builder."""
    if brings_code(model) and not known.allows_inline_python:
        yield "runs no inline Python (MLSCOPE_ALLOW_INLINE_PYTHON is off there)"
    builder, allowed = model.model.builder, known.builders
    if builder and allowed is not None and not is_below(builder, allowed):
        yield f"builder {builder} is not allowed there (MLSCOPE_BUILDERS: {', '.join(allowed)})"


def is_below(path: str, allowed: Iterable[str]) -> bool:
    """Tell whether an import path is one of those allowed, or lies below it."""
    return any(path == each or path.startswith(f"{each}.") for each in allowed)
