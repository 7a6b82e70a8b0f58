"""A stand-in for a container engine: its containers are processes of this machine, not confined."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[5]
IMAGE, DIGEST = "mlscope:0.1.0", "sha256:0123"
READY: dict[str, Any] = {"digest": DIGEST, "architecture": "amd64"}

PROGRAM = """#!{python}
import json, os, sys
from pathlib import Path

state = json.loads(Path({state!r}).read_text())
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")

def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)

verb, rest = sys.argv[1], sys.argv[2:]
if state.get("unreachable"):
    fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
images = state["images"]
by_digest = {{image["digest"]: image for image in images.values()}}
if verb == "version":
    print("28.2.2")
elif verb == "image" and rest[0] == "ls":
    print(images.get(rest[-1], {{}}).get("digest", ""))
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
    if "fails" in image:
        fail(image["fails"])
    if "says" in image:
        print(image["says"])
        sys.exit(0)
    os.execve({python!r}, [{python!r}, *rest[place + 1 :]], variables)
"""


class FakeEngine:
    """A program `docker` in a folder of its own on the PATH."""

    def __init__(self, folder: Path, **images: dict[str, Any]) -> None:
        self._state, self._log = folder / "state.json", folder / "log"
        self.program = folder / "docker"
        texts = {"state": str(self._state), "log": str(self._log), "root": str(ROOT)}
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


def engine_on_the_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """Return an engine called docker that has one image, of this very mlscope."""
    folder.mkdir()
    engine = FakeEngine(folder)
    engine.has(images={IMAGE: READY})
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return engine
