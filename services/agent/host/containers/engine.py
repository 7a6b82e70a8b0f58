"""The command line of a container engine: docker or podman (I/O)."""

import csv
import io
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from services.agent.errors import EngineFailed

ENGINES = ("docker", "podman")
_ANSWER_S = 60.0
_SCRIPT_BYTES = 4096
_PODMAN_SCRIPT = re.compile(rb"^exec \S*podman\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's program, which may be podman under docker's name."""

    program: str
    is_podman: bool

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

        Raises EngineFailed.
        """
        return self.answer("image", "ls", "--quiet", "--no-trunc", image).strip().partition("\n")[0]

    def answer(self, *arguments: str) -> str:
        """Return what a command of the engine prints. Raises EngineFailed."""
        try:
            done = subprocess.run(
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ANSWER_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EngineFailed(self.name, f"no answer within {_ANSWER_S:g} s") from error
        except OSError as error:
            raise EngineFailed(self.name, error.strerror or str(error)) from error
        if done.returncode:
            raise EngineFailed(self.name, _last_line(done.stderr, done.returncode))
        return done.stdout

    def confinement(self, device: str) -> list[str]:
        """Return the options of a container that confines a model, with a `device`: cpu or gpu.

        It has no network and no capability, and writes nowhere but to its own `/tmp`. Its user is
        the agent's, so that it reads the agent's files; SELinux labels would deny it these. Without
        root, podman maps the user to root inside unless told otherwise.
        """
        options = ["--rm", "--init", "--pull", "never", "--network", "none", "--read-only"]
        options += ["--tmpfs", "/tmp", "--user", f"{os.getuid()}:{os.getgid()}"]  # noqa: S108
        options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        options += ["--security-opt", "label=disable", "--pids-limit", "4096"]
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
    """Tell whether a program is podman, also where it is called docker by a link or a script."""
    with program.open("rb") as file:
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
