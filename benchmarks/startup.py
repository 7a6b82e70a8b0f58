"""How long a user waits: `mlscope up` to the first accepted request (warm), and `--help`.

Floors in the same run: nats-server and PostgreSQL alone, and a bare Python start.
Claims: first accepted request <= 6 s; `mlscope --help` <= 200 ms.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.claims import claim
from benchmarks.cluster import MLSCOPE, mlscope, new_folder, running

REPEATS = 5
MOST_HELP_MS, MOST_UP_S = 200.0, 6.0


def seconds(command: list[str]) -> float:
    """Return how long a command takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def first_accepted_s(folder: Path) -> float:
    """Start the cluster in `folder` and return the seconds until a request is accepted."""
    from mlscope import Client

    start = time.perf_counter()
    with running(folder), Client(data=folder) as client:
        client.run("identity", scenarios=["online"], wait_s=30.0)
        return time.perf_counter() - start


def servers_s(folder: Path) -> float:
    """Return the seconds nats-server and PostgreSQL alone need, one after the other."""
    from cli.cluster.servers.nats_server import NatsServer
    from cli.cluster.servers.postgres import Postgres

    start = time.perf_counter()
    with NatsServer(folder), Postgres(folder):
        return time.perf_counter() - start


def shown(help_ms: float, up_s: float) -> int:
    """Print whether the claims hold; return 1 where one was missed."""
    holds = help_ms <= MOST_HELP_MS and up_s <= MOST_UP_S
    claim("mlscope --help", help_ms, most=MOST_HELP_MS, unit="ms", peer="python -c pass")
    claim("mlscope up to the first accepted request", up_s, most=MOST_UP_S, unit="s")
    text = f"help <= {MOST_HELP_MS:g} ms, up to accepted <= {MOST_UP_S:g} s"
    print(f"claim ({text}): {'holds' if holds else 'MISSED'}")
    return 0 if holds else 1


def main() -> int:
    """Print medians of alternated runs; return 1 where a claim was missed."""
    help_s, bare_s = [], []
    for _ in range(REPEATS * 2):
        help_s.append(seconds([*MLSCOPE, "--help"]))
        bare_s.append(seconds([sys.executable, "-c", "pass"]))
    help_ms = statistics.median(help_s) * 1e3
    print(f"mlscope --help     {help_ms:7.0f} ms")
    print(f"python -c pass     {statistics.median(bare_s) * 1e3:7.0f} ms   (floor)")
    with new_folder() as folder, new_folder() as floor:
        mlscope(folder, "up", "--detach")
        mlscope(folder, "down")
        servers_s(floor)
        ups, floors = [], []
        for _ in range(REPEATS):
            ups.append(first_accepted_s(folder))
            floors.append(servers_s(floor))
    print(f"up to accepted     {statistics.median(ups):7.2f} s    (max {max(ups):.2f})")
    print(f"servers alone      {statistics.median(floors):7.2f} s    (floor)")
    return shown(help_ms, statistics.median(ups))


if __name__ == "__main__":
    sys.exit(main())
