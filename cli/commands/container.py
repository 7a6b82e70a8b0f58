"""`mlscope agent --framework-manifest FILE`: an agent in the container the manifest gives."""

import csv
import io
import os
import platform
import re
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
_NOT_PASSED = frozenset(
    {"agent_image", "ready_file", "data_folder", "cache_folder", "dataset_folders"}
)
"""Settings that mean another thing inside: its image, and folders of its own."""
_OF_OTHERS = ("database_", "gateway_")
"""Settings of services that have secrets of their own, which are no agent's to know."""
_MOST_SCRIPT, _WRAPPED = 4096, re.compile(rb"^exec \S*podman\b", re.MULTILINE)


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
    Files that settings name are mounted below `/run/mlscope`, folders of datasets where they are on
    the host, as requests name them so; all to be read only, and read as whoever starts it. Labels
    of SELinux would keep a container from files of its user, and are off. The network is the
    host's: a cluster on this machine listens on its loopback.
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
            mounts += _mounted(Path(value).expanduser().resolve(), inside)
    folders = [Path(each).expanduser().resolve() for each in settings.dataset_folders]
    if folders:
        passed["MLSCOPE_DATASET_FOLDERS"] = ",".join(map(str, folders))
        mounts += [word for each in folders for word in _mounted(each, str(each))]
    names = [part for name in sorted(passed) for part in ("--env", name)]
    command = (
        *(engine, "run", "--rm", "--init", "--network", "host", "--shm-size", "256m"),
        *("--name", f"mlscope-agent-{settings.agent_id}", "--user", f"{os.getuid()}:{os.getgid()}"),
        *("--security-opt", "label=disable", *_of_engine(engine, device)),
        *("--env", f"HOME={_OWN}", *names, *mounts),
        *(image, "serve", "agent"),
    )
    return Launch(command, {**environ, **passed})


def _of_engine(engine: str, device: str) -> tuple[str, ...]:
    """Return what docker and podman write in different ways.

    Without rights podman makes the user root inside; the files mounted are the user's own, so it
    is to be the same there. Its `--gpus` did nothing for years: devices go by their names there.
    """
    if not _is_podman(Path(engine)):
        return () if device == "cpu" else ("--gpus", "all")
    user = ("--userns", "keep-id") if os.getuid() else ()
    return user if device == "cpu" else (*user, "--device", "nvidia.com/gpu=all")


def _is_podman(engine: Path) -> bool:
    """Tell podman, also where it is called docker: by a link, or by a script around it."""
    if "podman" in (engine.name, engine.resolve().name):
        return True
    with engine.open("rb") as file:
        head = file.read(_MOST_SCRIPT)
    return head.startswith(b"#!") and _WRAPPED.search(head) is not None


def _mounted(path: Path, inside: str) -> tuple[str, str]:
    """Return the words that mount a path to be read only; as CSV, so that it may have any name.

    Unlike `--volume` it never makes a folder in place of what is missing.
    """
    words = ("type=bind", f"source={path}", f"target={inside}", "readonly")
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(words)
    return "--mount", text.getvalue()


def _given(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield the settings that are set, with their text, and whether that is a path."""
    for each in fields(settings):
        variable = each.metadata["variable"]
        is_other_s = each.name.startswith(_OF_OTHERS)
        if each.name in _NOT_PASSED or is_other_s or not environ.get(variable, "").strip():
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
