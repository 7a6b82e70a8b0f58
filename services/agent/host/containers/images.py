"""What is in the images that an agent may start: each is asked once (I/O)."""

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mlscope.manifests.folders import read_manifests
from schemas.agent import Announcement, ContainerFacts
from schemas.manifest import FrameworkManifest
from schemas.values.framework_names import predictors_name
from services.agent.errors import EngineFailed, GivenUp
from services.agent.host.containers.engine import LABEL, Engine
from services.agent.link.fingerprint import link_fingerprint
from services.agent.machine.hardware import engine_architecture, package_version

_WITHIN = "services.agent.host.containers.within"
_BUILD = "build it from mlscope's Dockerfile"
_NO_MODULE = "No module named"
_NEED_NETWORK = frozenset({"remote"})
"""Frameworks that no container can serve: it has no network."""


@dataclass(frozen=True, slots=True)
class AllowedImage:
    """An image that framework manifests of the agent's own give for this machine."""

    image: str
    frameworks: tuple[str, ...]
    #: gpu, cpu or both; in this order
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asker:
    """The agent that asks its images."""

    #: its folder, which containers are labelled with
    owner: Path
    #: what its owner limits builders and frameworks to
    builders: Sequence[str] = ()
    predictors: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """What an image has in it, or why it can't be used."""

    facts: ContainerFacts
    #: a container of it could not be started this time; the same image may answer otherwise later
    may_change: bool = False


def allowed_images(manifests_folder: Path, *, has_gpu: bool) -> Iterator[AllowedImage]:
    """Yield the images of the framework manifests in `manifests_folder`, for this architecture.

    Each comes once, for all its frameworks and devices; GPUs only where the machine `has_gpu`.
    """
    images: dict[str, AllowedImage] = {}
    for manifest in read_manifests(manifests_folder, ["framework"]):
        if not isinstance(manifest, FrameworkManifest):
            continue
        by_device = manifest.containers.get(engine_architecture()) or {}
        for device in ("gpu", "cpu") if has_gpu else ("cpu",):
            if image := by_device.get(device):
                former = images.get(image, AllowedImage(image, (), ()))
                frameworks = dict.fromkeys((*former.frameworks, manifest.name))
                devices = sorted({*former.devices, device}, reverse=True)
                images[image] = AllowedImage(image, tuple(frameworks), tuple(devices))
    yield from images.values()


def image_answer(engine: Engine, allowed: AllowedImage, asker: Asker) -> ImageAnswer:
    """Return what an `allowed` image says to its `asker`, or why it can't be used.

    One for both devices is asked with a GPU, and where that does not start, without. Raises
    EngineFailed where the `engine` can't be reached, GivenUp.
    """
    image = allowed.image
    digest = engine.image_digest(image)
    if not digest:
        advice = f"`{engine.name} pull {image}`, or {_BUILD}"
        return ImageAnswer(ContainerFacts(image=image, reason=f"is not on this machine: {advice}"))
    facts = ContainerFacts(image=image, digest=digest)
    architecture = engine.answer("image", "inspect", "--format", "{{.Architecture}}", digest)
    if architecture.strip() != engine_architecture():
        reason = f"is for {architecture.strip()}, this machine is {engine_architecture()}: {_BUILD}"
        return ImageAnswer(facts.model_copy(update={"reason": f"{reason} here"}))
    failure = ""
    for device in allowed.devices:
        try:
            text = _asked(engine, digest, device, asker)
        except EngineFailed as error:
            failure = failure or error.reason
        else:
            facts = facts.model_copy(update=_facts_in(text, allowed))
            return ImageAnswer(facts, may_change=bool(failure))
    lacks_mlscope = _NO_MODULE in failure
    old = f"has no mlscope, or one too old to be started by this agent: {_BUILD} of this release"
    reason = old if lacks_mlscope else f"can't be started: {failure}"
    return ImageAnswer(facts.model_copy(update={"reason": reason}), may_change=not lacks_mlscope)


def _asked(engine: Engine, digest: str, device: str, asker: Asker) -> str:
    """Return what a container of an image prints of itself; it is removed, whatever happens."""
    name = f"mlscope-ask-{secrets.token_hex(6)}"
    limits = json.dumps({"builders": asker.builders, "predictors": asker.predictors})
    command = ["run", *engine.confinement(device), "--name", name]
    command += ["--label", f"{LABEL}={asker.owner}", "--env", "HOME=/tmp"]
    command += ["--entrypoint", "python", digest, "-P", "-m", _WITHIN, limits]
    try:
        return engine.answer(*command)
    except (EngineFailed, GivenUp):
        engine.remove(name)
        raise


def _lack_of(present: Sequence[str], needed: Sequence[str]) -> str:
    """Return why an image with the frameworks `present` has none of those `needed`, or ''."""
    if {predictors_name(framework) for framework in needed}.intersection(present):
        return ""
    frameworks = ", ".join(present) or "no framework"
    return f"is without {' and '.join(needed)} (it has {frameworks}): {_BUILD}"


def _facts_in(text: str, allowed: AllowedImage) -> dict[str, object]:
    """Return the facts in the answer of an image, with the reason why it is unfit, or ''."""
    try:
        answer = json.loads(text)
        described = Announcement.model_validate(answer["announcement"])
        speaks_alike = answer["link"] == link_fingerprint()
    except (ValueError, KeyError, TypeError, ValidationError):
        return {"reason": f"has an mlscope whose answer can't be read: {_BUILD} of this release"}
    runtimes = [own for own in described.runtimes if own.framework not in _NEED_NETWORK]
    if not speaks_alike:
        reason = (
            f"has mlscope {described.mlscope_version or 'unknown'} and the agent is "
            f"{package_version('mlscope') or 'unknown'}; their messages differ: {_BUILD} of this "
            "release"
        )
    else:
        reason = _lack_of([runtime.framework for runtime in runtimes], allowed.frameworks)
    return {
        "runtimes": tuple(runtimes),
        "collectors": described.collectors,
        "packages": described.packages,
        "mlscope_version": described.mlscope_version,
        "python_version": described.python_version,
        "reason": reason,
    }
