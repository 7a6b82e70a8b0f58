"""`mlscope agent --framework-manifest FILE`: an agent in the container the manifest gives."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from cli.commands.manifests import checked_manifest
from cli.failures import Misused
from mlscope.settings import Settings
from schemas.manifest import FrameworkManifest

ENGINES = ("docker", "podman")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_INSIDE, _OWN = "/run/mlscope", "/tmp/mlscope"  # noqa: S108  # the container's own /tmp
_NOT_PASSED = frozenset({"agent_image", "ready_file", "data_folder", "cache_folder"})
"""Settings that mean another thing inside: its image, and folders of its own."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What starts a container: the engine's command line, and the environment it reads from."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


def start(path: Path, device: str) -> NoReturn:
    """Become the engine that runs the container, so that signals reach it. Raises Misused."""
    launch = launch_of(framework_manifest(path), device, os.environ)
    print(" ".join(launch.command), file=sys.stderr, flush=True)
    os.execve(launch.command[0], launch.command, dict(launch.environ))  # noqa: S606


def framework_manifest(path: Path) -> FrameworkManifest:
    """Return the framework manifest in a file. Raises Misused."""
    manifest = checked_manifest(path, "framework")
    if not isinstance(manifest, FrameworkManifest):
        raise Misused(f"{path}: a framework manifest is needed, this is a {manifest.kind}")
    return manifest


def launch_of(manifest: FrameworkManifest, device: str, environ: Mapping[str, str]) -> Launch:
    """Return how the agent's container is started. Raises Misused, InvalidSetting.

    Settings go by name: their values are in the engine's environment, not on its command line.
    Files that settings name are mounted, to be read only, and read as whoever starts it.
    """
    engine = next(filter(None, (shutil.which(e, path=environ.get("PATH")) for e in ENGINES)), None)
    if engine is None:
        raise Misused(
            f"no container engine is here: none of {', '.join(ENGINES)} is on the PATH; "
            f"start the agent in {image_of(manifest, device)} by hand with `mlscope serve agent`"
        )
    image = image_of(manifest, device)
    settings = Settings.read(environ)
    passed = {
        "MLSCOPE_DATA": f"{_OWN}/data",
        "MLSCOPE_AGENT_ID": settings.agent_id,
        "MLSCOPE_AGENT_IMAGE": image,
    }
    mounts: list[str] = []
    for variable, value, is_path in _given(settings, environ):
        inside = f"{_INSIDE}/{variable.lower()}"
        passed[variable] = inside if is_path else value
        if is_path:
            mounts += ["--volume", f"{Path(value).expanduser().resolve()}:{inside}:ro"]
    names = [part for name in sorted(passed) for part in ("--env", name)]
    gpus = () if device == "cpu" else ("--gpus", "all")
    command = (
        *(engine, "run", "--rm", "--init", "--network", "host", "--shm-size", "256m"),
        *("--name", f"mlscope-agent-{settings.agent_id}", "--user", f"{os.getuid()}:{os.getgid()}"),
        *("--env", f"HOME={_OWN}", *gpus, *names, *mounts),
        *(image, "serve", "agent"),
    )
    return Launch(command, {**environ, **passed})


def _given(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield the settings that are set, with their text, and whether that is a path."""
    for each in fields(settings):
        variable = each.metadata["variable"]
        if each.name in _NOT_PASSED or not environ.get(variable, "").strip():
            continue
        yield variable, environ[variable], isinstance(getattr(settings, each.name), Path)


def image_of(manifest: FrameworkManifest, device: str) -> str:
    """Return the image for this machine's architecture and a device. Raises Misused."""
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine)
    images = manifest.containers.get(architecture) or manifest.containers.get(machine) or {}
    if device in images:
        return images[device]
    given = [f"{name} {kind}" for name, kinds in manifest.containers.items() for kind in kinds]
    raise Misused(
        f"{manifest.name} {manifest.version} has no container for {architecture} {device}; "
        f"it has {', '.join(given) or 'none'}"
    )
