"""A stand-in for a container engine: its containers are processes of this machine, not confined."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.agent.host.containers import within
from services.agent.machine.hardware import engine_architecture

ROOT = Path(__file__).resolve().parents[5]
IMAGE, DIGEST = "mlscope:0.1.0", "sha256:0123"
READY: dict[str, Any] = {"digest": DIGEST, "architecture": engine_architecture()}

PROGRAM = """#!{python} -S
import json, os, subprocess, sys, time, zlib
from pathlib import Path

state = json.loads(Path({state!r}).read_text())
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")

def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)

def hang():
    with open({hanging!r}, "a") as pids:
        pids.write(str(os.getpid()) + "\\n")
    time.sleep(600)

verb, rest = sys.argv[1], sys.argv[2:]
if verb in state.get("hangs", []):
    hang()
if state.get("unreachable"):
    fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
images = state["images"]
by_digest = {{image["digest"]: image for image in images.values()}}
if verb == "version":
    print("28.2.2")
elif verb == "image" and rest[0] == "ls":
    for name, image in images.items():
        if rest[-1] in (name, name.rpartition(":")[0]):
            print(image["digest"])
elif verb == "image":
    print(by_digest[rest[-1]]["architecture"])
elif verb == "ps":
    print("\\n".join(state.get("left", [])))
elif verb == "run":
    variables, place = {{"PATH": os.environ["PATH"], "PYTHONPATH": {root!r}}}, 0
    while rest[place].startswith("-"):
        if rest[place] == "--env":
            name, _, value = rest[place + 1].partition("=")
            variables[name] = value
        place += 1 if rest[place] in ("--rm", "--init", "--read-only") else 2
    image = by_digest.get(rest[place]) or fail("No such image: " + rest[place])
    if image.get("hangs"):
        hang()
    if "fails" in image and not ("starts_on_cpu" in image and "--gpus" not in rest):
        fail(image["fails"])
    if "says" in image:
        print(image["says"])
        sys.exit(0)
    if "ends_with" in image:
        subprocess.run([{python!r}, *rest[place + 1 :]], env=variables)
        sys.exit(image["ends_with"])
    command = [{python!r}, *rest[place + 1 :]]
    if {within!r} not in command:
        os.execve({python!r}, command, variables)
    asked = repr((command, {{**variables, "PATH": ""}})).encode()
    answer = Path({answers!r}, str(zlib.crc32(asked)))
    if not answer.exists():
        partial = answer.with_name(str(os.getpid()))
        partial.write_bytes(subprocess.run(command, env=variables, stdout=-1, check=True).stdout)
        partial.rename(answer)
    print(answer.read_text())
"""


class FakeEngine:
    """A program `docker` in a folder of its own on the PATH."""

    def __init__(self, folder: Path, **images: dict[str, Any]) -> None:
        self._state, self._log = folder / "state.json", folder / "log"
        self._hanging = folder / "hanging"
        self.program = folder / "docker"
        texts = {"state": str(self._state), "log": str(self._log), "root": str(ROOT)}
        texts["hanging"] = str(self._hanging)
        # Equal images of all tests of this process have the same in them: each is asked once.
        answers = folder.parents[1] / "answers of images"
        answers.mkdir(exist_ok=True)
        texts |= {"within": within.__name__, "answers": str(answers)}
        self.program.write_text(PROGRAM.format(python=sys.executable, **texts))
        self.program.chmod(0o755)
        self.has(images=images)

    def has(self, **state: Any) -> None:
        """Change what the engine has."""
        before = json.loads(self._state.read_text()) if self._state.exists() else {"images": {}}
        self._state.write_text(json.dumps({**before, **state}))

    def commands(self, verb: str) -> list[list[str]]:
        """Return the commands of a kind that it was given."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [command for command in map(json.loads, lines) if command[0] == verb]

    async def hanging(self) -> int:
        """Wait until a command of it hangs; return its process id."""
        await _until(lambda: self._hanging.exists() and self._hanging.read_text()[-1:] == "\n")
        return int(self._hanging.read_text().split()[-1])

    async def nothing_hangs(self) -> None:
        """Wait until the last command of it that hung is killed."""
        process = Path("/proc", str(await self.hanging()))
        await _until(lambda: not process.exists())


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def engine_on_the_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """Return an engine called docker that has one image, of this very mlscope."""
    folder.mkdir()
    engine = FakeEngine(folder)
    engine.has(images={IMAGE: READY})
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return engine


def a_framework(folder: Path, name: str, **images: str) -> None:
    """Write the manifest of a framework with `images` by device into a manifests folder."""
    containers = {engine_architecture(): images}
    manifest = {"kind": "framework", "name": name, "version": "1.0", "containers": containers}
    path = folder / "frameworks" / f"{name}.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(manifest))
