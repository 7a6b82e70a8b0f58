"""A compose cluster of three agents in a real engine; its base images may be stand-ins."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import find_program

ROOT = Path(__file__).parents[2]
PROJECT = f"mlscope-test-{os.getpid()}"
"""The name of this run's containers and volumes: another run on the engine has its own."""
ADDRESS = "127.0.0.2"
"""Where a cluster with `compose.listen.yaml` listens for other machines."""


@dataclass(frozen=True)
class Compose:
    """One project of compose."""

    command: Sequence[str]
    environ: dict[str, str]

    def __call__(self, *arguments: str, timeout_s: float = 300.0) -> str:
        """Run compose and return what it prints. Raises AssertionError with its words."""
        done = subprocess.run(
            [*self.command, "-p", PROJECT, *arguments],
            cwd=ROOT,
            env=self.environ,
            text=True,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def compose_command() -> list[str] | None:
    """Return Compose v2 if the engine has it, else 1.29."""
    plugin = ["docker", "compose"]
    if subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
        return plugin
    return ["docker-compose"] if shutil.which("docker-compose") else None


def engine_answers() -> bool:
    """Tell whether a container engine runs."""
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def engine() -> Iterator[None]:
    """Use the engine that runs, or start one for the length of the tests."""
    if shutil.which("docker") is None or compose_command() is None:
        pytest.skip("no container engine: apt-get install docker.io docker-compose debootstrap")
    if engine_answers():
        yield
        return
    daemon = subprocess.Popen(["dockerd"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if engine_answers():
                break
            time.sleep(0.2)
        yield
    finally:
        daemon.terminate()
        daemon.wait()


@pytest.fixture(scope="module")
def compose(engine: None) -> Iterator[Compose]:
    """Bring the cluster up, and take it away with its volumes."""
    with brought_up("--scale", "agent=3") as compose:
        yield compose


@contextmanager
def brought_up(*options: str, files: Sequence[str] = ("compose.yaml",)) -> Iterator[Compose]:
    """Bring the cluster of `files` up with `options`, and take it away with its volumes."""
    command = compose_command()
    assert command is not None
    nats, gateway = free_port(), free_port()
    environ = {
        **os.environ,
        "NATS_SERVER": str(find_program()),
        # Compose 1.29 gives up on an engine that is busy for a minute.
        "COMPOSE_HTTP_TIMEOUT": "240",
        "MLSCOPE_NATS_PORT": str(nats),
        "MLSCOPE_GATEWAY_PORT": str(gateway),
        "MLSCOPE_LISTEN": ADDRESS,
    }
    standins = Path(__file__).parent / "standins.sh"
    subprocess.run([str(standins)], env=environ, check=True, stdout=subprocess.DEVNULL)
    compose = Compose([*command, *(f"--file={name}" for name in files)], environ)
    try:
        compose("up", "-d", "--build", *options, timeout_s=1200)
        yield compose
    finally:
        compose("--profile", "tools", "down", "--volumes", "--timeout", "20")
