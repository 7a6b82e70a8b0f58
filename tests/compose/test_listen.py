"""`docker compose -f compose.yaml -f compose.listen.yaml up`: another machine, and a person."""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import exits
from tests.compose.conftest import ADDRESS, Compose, brought_up
from tests.compose.test_compose import mlscope, shown

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

COMMAND = (sys.executable, "-m", "cli.main")


@pytest.fixture(scope="module")
def listening(engine: None) -> Iterator[Compose]:
    with brought_up(files=("compose.yaml", "compose.listen.yaml")) as compose:
        yield compose


def admission(compose: Compose, *command: str) -> str:
    """Run a command in the container that admits."""
    return compose("exec", "-T", "admission", *command)


@dataclass(frozen=True)
class Outsider:
    """A person on this machine, with the files that were handed over in `folder`."""

    compose: Compose
    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the cluster's authority."""
        return self.folder / "authority.pem"

    def agent_that_measures(self, evaluated_on: str) -> str:
        """Request an evaluation on an agent; return which one has run it."""
        url = f"tls://{ADDRESS}:{self.compose.environ['MLSCOPE_NATS_PORT']}"
        request = ["run", "tiny-cnn", "--agent", evaluated_on, "--scenario", "online:queries=5"]
        evaluation = subprocess.run(
            [*COMMAND, *request, "--detach", "--url", url, "--seed-file", self.folder / "seed.nk"],
            env={**os.environ, "MLSCOPE_TLS_AUTHORITY_FILE": str(self.authority)},
            text=True,
            capture_output=True,
            check=True,
        ).stdout.split()[0]
        mlscope(self.compose, "watch", evaluation)
        (run,) = shown(self.compose, evaluation)["runs"]
        assert run["state"] == "recorded"
        return str(run["agent"])

    def answer_of_pages(self) -> int:
        """Return the status with which the gateway answers to the person's token."""
        url = f"https://{ADDRESS}:{self.compose.environ['MLSCOPE_GATEWAY_PORT']}/api/evaluations"
        token = (self.folder / "token").read_text("ascii").strip()
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        trusted = ssl.create_default_context(cafile=self.authority)
        try:
            with urllib.request.urlopen(asked, timeout=10, context=trusted) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def added(compose: Compose, name: str, folder: Path) -> Outsider:
    """Add a person and hand over what belongs to it."""
    admission(compose, "mlscope", "people", "add", name, "--role", "requester")
    people = "/data/keys/people"
    files = {
        "seed.nk": f"{people}/{name}.nk",
        "token": f"{people}/{name}.token",
        "authority.pem": "/run/authority/authority.pem",
    }
    for own, file in files.items():
        (folder / own).write_text(admission(compose, "cat", file), "ascii")
    return Outsider(compose, folder)


@contextmanager
def joined(invitation: str, data: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run an agent on this machine, with a key of its own."""
    argv = [*COMMAND, "join", "-", "--data", str(data)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(invitation)
        process.stdin.close()
        try:
            yield process
        finally:
            process.terminate()


def until_live(compose: Compose, agent: str) -> None:
    """Return once an agent has announced itself."""
    deadline = time.monotonic() + 60
    states: dict[str, str] = {}
    while states.get(agent) != "live":
        assert time.monotonic() < deadline, states
        # A container of the command line waits for the registry.
        rows = json.loads(mlscope(compose, "ls", "agents", "-o", "json"))
        states = {row["agent"]: row["state"] for row in rows}


def test_a_machine_and_a_person_come_and_go(listening: Compose, tmp_path: Path) -> None:
    alice = added(listening, "alice", tmp_path)
    invitation = admission(listening, "mlscope", "agents", "invite", "gpu-box")
    with joined(invitation, tmp_path / "data") as agent:
        until_live(listening, "gpu-box")
        assert alice.agent_that_measures("gpu-box") == "gpu-box"
        assert alice.answer_of_pages() == 200
        listening("down", "--timeout", "20")
        listening("up", "-d")
        until_live(listening, "gpu-box")
        assert alice.agent_that_measures("gpu-box") == "gpu-box"
        admission(listening, "mlscope", "agents", "revoke", "gpu-box")
        assert agent.wait(60) == exits.AUTH
    admission(listening, "mlscope", "people", "remove", "alice")
    assert alice.answer_of_pages() == 401
