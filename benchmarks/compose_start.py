"""How long a user of containers waits: `docker compose --profile pytorch up` to a request.

    python -m benchmarks.compose_start [--profile NAME …] [--repeats N]

The images are warm: built before, with no volume and no container left of an earlier start. Then
the clock runs from `up` to the first request that the cluster accepts; the request is repeated
over REST until it is. It needs a container engine with Compose; the project is its own, and it is
taken away with its volumes. Floor in the same run: one container of the same image that starts and
ends. Claim: the first accepted request <= 20 s.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from benchmarks.claims import claim
from cli.cluster.ports import free_port

ROOT = Path(__file__).parents[1]
PROJECT, IMAGE = "mlscope-benchmark", "mlscope:0.1.0"
MOST_S, GIVE_UP_S, PAUSE_S = 20.0, 300.0, 0.1
REQUEST = {"model": "identity", "scenarios": ["online"], "wait_s": 60}


def compose_program() -> list[str]:
    """Return the command of Compose: the engine's, or the program of its own."""
    plugin = ["docker", "compose"]
    has_plugin = subprocess.run([*plugin, "version"], capture_output=True, check=False)
    return plugin if has_plugin.returncode == 0 else ["docker-compose"]


class Cluster:
    """A project of Compose with its own ports."""

    def __init__(self, profiles: Sequence[str]) -> None:
        self._gateway = free_port()
        chosen = [part for name in profiles for part in ("--profile", name)]
        self._command = [*compose_program(), "-p", PROJECT, *chosen]
        ports = {"MLSCOPE_NATS_PORT": free_port(), "MLSCOPE_GATEWAY_PORT": self._gateway}
        self._environ = {**os.environ, **{name: str(port) for name, port in ports.items()}}

    def __call__(self, *arguments: str) -> str:
        """Run compose; return what it prints. Raises CalledProcessError."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT,
            env=self._environ,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return done.stdout

    def first_accepted_s(self) -> float:
        """Start the cluster; return the seconds until it accepted a request, and take it away."""
        try:
            start = time.perf_counter()
            self("up", "-d", "--no-build")
            while not self.accepts():
                if time.perf_counter() - start > GIVE_UP_S:
                    raise TimeoutError(f"no request was accepted within {GIVE_UP_S:g} s")
                time.sleep(PAUSE_S)
            return time.perf_counter() - start
        finally:
            self("down", "--volumes", "--timeout", "5")

    def accepts(self) -> bool:
        """Send the request once; tell whether it was accepted."""
        try:
            token = self("exec", "-T", "gateway", "cat", "/run/keys/token").strip()
            request = urllib.request.Request(
                f"http://127.0.0.1:{self._gateway}/api/evaluations",
                json.dumps(REQUEST).encode(),
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                return bool(json.load(answer)["accepted"])
        except (OSError, ValueError, KeyError, subprocess.CalledProcessError):
            return False


def container_s() -> float:
    """Return the seconds that a container of the same image takes to start and end."""
    start = time.perf_counter()
    command = ["docker", "run", "--rm", "--entrypoint", "true", IMAGE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Print the figure beside its budget; return 1 where the claim was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", action="append", metavar="NAME", help="default: pytorch")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    arguments = parser.parse_args()
    profiles = arguments.profile or ["pytorch"]
    cluster = Cluster(profiles)
    cluster("build", "--quiet")
    floor_s = statistics.median(container_s() for _ in range(arguments.repeats))
    waits = [cluster.first_accepted_s() for _ in range(arguments.repeats)]
    wait_s = statistics.median(waits)
    names = " ".join(f"--profile {name}" for name in profiles)
    print(f"compose {names} up to accepted  {wait_s:6.2f} s  (max {max(waits):.2f})")
    print(f"one container that starts and ends  {floor_s:6.2f} s  (floor)")
    subject = f"docker compose {names} up to the first accepted request"
    peer = f"one container: {floor_s:.2f} s"
    holds = claim(subject, wait_s, most=MOST_S, unit="s", peer=peer)
    print(f"claim (accepted <= {MOST_S:g} s): {'holds' if holds else 'MISSED'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
