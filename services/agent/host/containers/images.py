"""What is in the images that an agent may start: each is asked once (I/O)."""

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mlscope.manifests.folders import read_manifests
from schemas.agent import Announcement, ContainerFacts
from schemas.manifest import FrameworkManifest
from schemas.values.framework_names import predictors_name
from services.agent.errors import EngineFailed
from services.agent.host.containers.engine import Engine
from services.agent.link.fingerprint import link_fingerprint
from services.agent.machine.hardware import package_version

_WITHIN = "services.agent.host.containers.within"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_BUILD = "build it from mlscope's Dockerfile"


@dataclass(frozen=True, slots=True)
class AllowedImage:
    """An image that a framework manifest of the agent's own gives for this machine."""

    image: str
    framework: str
    #: cpu or gpu
    device: str


def allowed_images(manifests_folder: Path, *, has_gpu: bool) -> Iterator[AllowedImage]:
    """Yield the images of the framework manifests in `manifests_folder`, for this architecture.

    Each comes once; those for GPUs only where the machine `has_gpu`.
    """
    devices = ("cpu", "gpu") if has_gpu else ("cpu",)
    images: dict[str, AllowedImage] = {}
    for manifest in read_manifests(manifests_folder):
        if not isinstance(manifest, FrameworkManifest):
            continue
        by_device = manifest.containers.get(engine_architecture()) or {}
        for device in devices:
            if image := by_device.get(device):
                images.setdefault(image, AllowedImage(image, manifest.name, device))
    yield from images.values()


def engine_architecture() -> str:
    """Return this machine's architecture as engines and framework manifests call it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def container_facts(
    engine: Engine, allowed: AllowedImage, builders: Sequence[str], predictors: Sequence[str]
) -> ContainerFacts:
    """Return what an `allowed` image has in it, or why it can't be used.

    `builders` and `predictors` are what the agent's owner limits builders and frameworks to.
    Raises EngineFailed where the `engine` can't be reached.
    """
    image = allowed.image
    digest = engine.image_digest(image)
    if not digest:
        advice = f"`{engine.name} pull {image}`, or {_BUILD}"
        return ContainerFacts(image=image, reason=f"is not on this machine: {advice}")
    facts = ContainerFacts(image=image, digest=digest)
    architecture = engine.answer("image", "inspect", "--format", "{{.Architecture}}", digest)
    if architecture.strip() != engine_architecture():
        reason = f"is for {architecture.strip()}, this machine is {engine_architecture()}: {_BUILD}"
        return facts.model_copy(update={"reason": f"{reason} here"})
    asked = json.dumps({"builders": builders, "predictors": predictors})
    command = ["run", *engine.confinement(allowed.device), "--env", "HOME=/tmp"]
    command += ["--entrypoint", "python", digest, "-P", "-m", _WITHIN, asked]
    try:
        answer = json.loads(engine.answer(*command))
        described = Announcement.model_validate(answer["announcement"])
        speaks_alike = answer["link"] == link_fingerprint()
    except EngineFailed as error:
        return facts.model_copy(update={"reason": _why_silent(error)})
    except (ValueError, KeyError, TypeError, ValidationError):
        reason = f"has an mlscope whose answer can't be read: {_BUILD} of this release"
        return facts.model_copy(update={"reason": reason})
    return facts.model_copy(
        update={
            "runtimes": described.runtimes,
            "collectors": described.collectors,
            "packages": described.packages,
            "mlscope_version": described.mlscope_version,
            "python_version": described.python_version,
            "reason": _why_unfit(described, allowed.framework)
            if speaks_alike
            else _too_old(described),
        }
    )


def _why_silent(error: EngineFailed) -> str:
    """Return why a container did not say what it has."""
    if "No module named" in error.reason:
        return (
            f"has no mlscope, or one too old to be started by this agent: {_BUILD} of this release"
        )
    return f"can't be started: {error.reason}"


def _too_old(described: Announcement) -> str:
    own = package_version("mlscope") or "unknown"
    return (
        f"has mlscope {described.mlscope_version or 'unknown'} and the agent is {own}; their "
        f"messages differ: {_BUILD} of this release"
    )


def _why_unfit(described: Announcement, framework: str) -> str:
    """Return why an image can't serve its manifest's `framework`, or ''."""
    names = [runtime.framework for runtime in described.runtimes]
    if predictors_name(framework) in names:
        return ""
    return f"is without {framework} (it has {', '.join(names) or 'no framework'}): {_BUILD}"
