"""The command line of a container engine: docker or podman (I/O)."""

import contextlib
import csv
import io
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from services.agent.errors import EngineFailed, GivenUp

ENGINES = ("docker", "podman")
LABEL = "mlscope.agent"
"""Names the agent, by its folder, that started a container."""
_ANSWER_S = 60.0
_REMOVE_S = 10.0
_POLL_S = 0.1
_TMP = "/tmp:size=1g"  # noqa: S108
_MOST_PROCESSES = 4096
_GONE_TEXTS = ("no such container", "already in progress")
"""Parts of engines' messages: docker and podman end with the code 1 for whatever failed."""
_SCRIPT_BYTES = 4096
_PODMAN_SCRIPT = re.compile(rb"^exec \S*podman\b", re.MULTILINE)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's program, which may be podman under docker's name."""

    program: str
    is_podman: bool
    #: tells whether to give up waiting for an answer; `bool()` never does
    is_given_up: Callable[[], bool] = field(default=bool, compare=False)

    @classmethod
    def named(cls, name: str, search_path: str | None = None) -> Self:
        """Return the engine called `name` on the `search_path`, by default PATH's.

        Raises EngineFailed.
        """
        program = shutil.which(name, path=search_path)
        if program is None:
            raise EngineFailed(name, f"not on the PATH of the agent; install {name}")
        return cls(program, is_podman(Path(program)))

    @property
    def name(self) -> str:
        """Its name, for people."""
        return Path(self.program).name

    def version(self) -> str:
        """Return the version of its server. Raises EngineFailed where that can't be reached."""
        part = "Client" if self.is_podman else "Server"
        return self.answer("version", "--format", f"{{{{.{part}.Version}}}}").strip()

    def image_digest(self, image: str) -> str:
        """Return the id of an image, by which a container of it starts; '' where it is missing.

        Without a tag it is the image tagged `latest`: engines list those of all tags. Raises
        EngineFailed.
        """
        has_tag = not {":", "@"}.isdisjoint(image.rpartition("/")[2])
        tagged = image if has_tag else f"{image}:latest"
        ids = self.answer("image", "ls", "--quiet", "--no-trunc", tagged).split()
        return ids[0] if ids else ""

    def answer(self, *arguments: str, within_s: float | None = None) -> str:
        """Return what a command of the engine prints within `within_s` seconds, by default 60.

        Raises EngineFailed, and GivenUp once `is_given_up` says so.
        """
        try:
            process = subprocess.Popen(
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise EngineFailed(self.name, error.strerror or str(error)) from error
        limit_s = _ANSWER_S if within_s is None else within_s
        deadline_s = time.monotonic() + limit_s
        with process:
            try:
                while True:
                    if self.is_given_up():
                        raise GivenUp
                    if time.monotonic() > deadline_s:
                        raise EngineFailed(self.name, f"no answer within {limit_s:g} s")
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        output, errors = process.communicate(timeout=_POLL_S)
                        break
            finally:
                process.kill()
        if process.returncode:
            raise EngineFailed(self.name, _last_line(errors, process.returncode))
        return output

    def remove(self, *containers: str) -> None:
        """Remove containers by name or id, running or not.

        A failure is logged only: what is left is removed at the agent's next start.
        """
        try:
            patient = replace(self, is_given_up=bool)
            patient.answer("rm", "--force", *containers, within_s=_REMOVE_S)
        except EngineFailed as error:
            if not any(text in error.reason.lower() for text in _GONE_TEXTS):
                _log.warning("containers are not removed", extra={"cause": str(error)})

    def confinement(self, device: str, processes: int = _MOST_PROCESSES) -> list[str]:
        """Return the options of a container that confines a model, with a `device`: cpu or gpu.

        It may have so many `processes` and threads; 0 is no bound. It has no network and no
        capability, and writes nowhere but to its own `/tmp`, at most 1 GiB, and to what is mounted
        for that. Its user is the agent's, so that it reads the
        agent's files; SELinux labels would deny it these. Without root, podman maps the user to
        root inside unless told otherwise.
        """
        options = ["--rm", "--init", "--pull", "never", "--network", "none", "--read-only"]
        options += ["--tmpfs", _TMP, "--user", f"{os.getuid()}:{os.getgid()}"]
        options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        options += ["--security-opt", "label=disable"]
        options += ["--pids-limit", str(processes or -1)]
        options += ["--shm-size", "256m", "--log-driver", "none"]
        return [*options, *self.device_options(device)]

    def device_options(self, device: str) -> list[str]:
        """Return the options in which docker and podman differ, for a `device`: cpu or gpu.

        Podman without root maps the user to root inside; `keep-id` lets the container read its
        user's files. Its `--gpus` had no effect for years, so GPUs are named as devices.
        """
        if not self.is_podman:
            return [] if device == "cpu" else ["--gpus", "all"]
        user = ["--userns", "keep-id"] if os.getuid() else []
        return user if device == "cpu" else [*user, "--device", "nvidia.com/gpu=all"]


def is_podman(program: Path) -> bool:
    """Tell whether a program is podman, also where it is called docker by a link or a script.

    A script that can't be read counts as none.
    """
    script = b""
    with contextlib.suppress(OSError), program.open("rb") as file:
        script = file.read(_SCRIPT_BYTES)
    is_wrapper = script.startswith(b"#!") and _PODMAN_SCRIPT.search(script)
    return "podman" in (program.name, program.resolve().name) or bool(is_wrapper)


def mount_options(path: Path, target: str, *, is_writable: bool = False) -> tuple[str, str]:
    """Return the options that mount `path` at `target`; in CSV, so that it may contain commas.

    It is read-only unless it `is_writable`. Unlike `--volume`, `--mount` never creates a folder in
    place of a missing path.
    """
    text = io.StringIO()
    fields = ["type=bind", f"source={path}", f"target={target}"]
    csv.writer(text, lineterminator="").writerow(fields if is_writable else [*fields, "readonly"])
    return "--mount", text.getvalue()


def _last_line(errors: str, code: int) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with {code}"
