"""`mlscope agent --framework-manifest FILE`: an agent in the container that the manifest names."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from cli.failures import Misused
from cli.inputs.manifests import checked_manifest
from mlscope.settings import Settings
from schemas.manifest import FrameworkManifest
from services.agent.host.containers.engine import ENGINES, Engine, is_podman, mount_options
from services.agent.machine.hardware import engine_architecture

_MOUNTS_FOLDER = "/run/mlscope"
_CONTAINER_FOLDER = "/tmp/mlscope"  # noqa: S108  # the container's own /tmp
_NOT_PASSED = frozenset(
    {"agent_image", "ready_file", "data_folder", "cache_folder", "dataset_folders"}
)
"""Settings with another meaning inside: the image, and folders of the container's own."""
_OTHER_SERVICES = ("database_", "gateway_")
"""Prefixes of settings of services with secrets that an agent must not know."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a container is started: the engine's command line and its environment."""

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
        raise Misused(f"{path}: expected a framework manifest, found a {manifest.kind} manifest")
    return manifest


def launch_of(manifest: FrameworkManifest, device: str, environ: Mapping[str, str]) -> Launch:
    """Return how to start the agent's container. Raises Misused, InvalidSetting.

    `manifest`: the framework with its images; `device`: cpu or gpu; `environ`: our environment.

    Settings are passed by name: their values are in the engine's environment, not on its command
    line. Files that settings name are mounted below `/run/mlscope`. Dataset folders are mounted
    at their paths on the host, because requests use those paths. All mounts are read-only, and
    read as the user who starts the container. SELinux labels would deny the container its user's
    files, so they are off. The network is the host's: a cluster on this machine listens on its
    loopback.
    """
    engines = (shutil.which(name, path=environ.get("PATH")) for name in ENGINES)
    engine = next(filter(None, engines), None)
    image = image_of(manifest, device)
    if engine is None:
        raise Misused(
            f"no container engine found: none of {', '.join(ENGINES)} is on the PATH; "
            f"start the agent in {image} by hand with `mlscope serve agent`"
        )
    settings = Settings.read(environ)
    passed, mounts = _passed_settings(settings, environ)
    passed["MLSCOPE_AGENT_IMAGE"] = image
    names = [part for name in sorted(passed) for part in ("--env", name)]
    options = Engine(engine, is_podman(Path(engine))).device_options(device)
    command = [engine, "run", "--rm", "--init", "--network", "host", "--shm-size", "256m"]
    command += ["--name", f"mlscope-agent-{settings.agent_id}"]
    command += ["--user", f"{os.getuid()}:{os.getgid()}"]
    command += ["--security-opt", "label=disable", *options]
    command += ["--env", f"HOME={_CONTAINER_FOLDER}", *names, *mounts]
    command += [image, "serve", "agent"]
    return Launch(tuple(command), {**environ, **passed})


def _passed_settings(
    settings: Settings, environ: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a container's agent, and the options that mount what they name.

    `settings` are those that `environ`, our environment, gives.
    """
    passed = {"MLSCOPE_DATA": f"{_CONTAINER_FOLDER}/data", "MLSCOPE_AGENT_ID": settings.agent_id}
    mounts: list[str] = []
    for field in fields(settings):
        variable = field.metadata["variable"]
        value = environ.get(variable, "")
        if field.name in _NOT_PASSED or field.name.startswith(_OTHER_SERVICES) or not value.strip():
            continue
        passed[variable] = value
        if isinstance(getattr(settings, field.name), Path):
            passed[variable] = f"{_MOUNTS_FOLDER}/{variable.lower()}"
            mounts += mount_options(Path(value).expanduser().resolve(), passed[variable])
    folders = [Path(folder).expanduser().resolve() for folder in settings.dataset_folders]
    if folders:
        passed["MLSCOPE_DATASET_FOLDERS"] = ",".join(map(str, folders))
    for folder in folders:
        mounts += mount_options(folder, str(folder))
    return passed, mounts


def image_of(manifest: FrameworkManifest, device: str) -> str:
    """Return the image for this machine's architecture and `device`. Raises Misused."""
    own = engine_architecture()
    images = manifest.containers.get(own) or manifest.containers.get(platform.machine()) or {}
    if device in images:
        return images[device]
    available = [f"{name} {kind}" for name, kinds in manifest.containers.items() for kind in kinds]
    raise Misused(
        f"{manifest.name} {manifest.version} has no container for {own} {device}; "
        f"it has {', '.join(available) or 'none'}"
    )
