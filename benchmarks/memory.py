"""Every service's memory over ten minutes of load: it must stay flat.

Prints each process's resident memory after the first minute and at the end, and their ratio.
Claim: within 10 %; nats-server within its bound. `python -m benchmarks.memory [MINUTES]`.
"""

import sys
import time
from pathlib import Path

from benchmarks.claims import claim
from benchmarks.cluster import new_folder, running
from cli.cluster.servers.nats_server import MEMORY_BYTES
from cli.cluster.state import read_state

SERVERS = ("nats", "postgres")
"""Printed beside the services: their caches grow as they see fit, NATS's up to a bound."""

MOST_NATS_BYTES = MEMORY_BYTES + (64 << 20)
"""Its bound is of what it allocates; its program's pages come on top."""

REQUEST = {
    "scenarios": [
        {"name": "online", "parameters": {"queries": 200}},
        {"name": "poisson", "parameters": {"rate_hz": 200.0, "queries": 200}},
    ],
    "trace_level": "model",
}


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def resident(folder: Path) -> dict[str, tuple[int, int]]:
    """Return (pid, resident memory) of every process of the cluster, by name."""
    processes = read_state(folder).processes
    return {
        process.name: (process.identity.pid, resident_bytes(process.identity.pid))
        for process in processes
        if process.identity
    }


def load(folder: Path, until: float) -> int:
    """Run one evaluation after another until the clock says so; return how many."""
    from mlscope import Client

    count = 0
    with Client(data=folder) as client:
        while time.monotonic() < until:
            client.run("tiny-cnn", wait_s=30.0, **REQUEST).wait(120)
            count += 1
    return count


def main() -> int:
    """Run the load, print a line a process, return how many grew by 10 % or were restarted."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with new_folder() as folder, running(folder):
        start = time.monotonic()
        evaluations = load(folder, start + 60 * minutes / 10)
        before = resident(folder)
        evaluations += load(folder, start + 60 * minutes)
        after = resident(folder)
    print(f"{evaluations} evaluations in {minutes:g} min; RSS after the first tenth and at the end")
    grown = 0
    for name, (pid, size) in after.items():
        pid_before, size_before = before[name]
        ratio = size / size_before if pid == pid_before else float("inf")
        if name not in SERVERS:
            grown += not claim(f"memory over its beginning: {name}", ratio, most=1.1, unit="x")
        grown += name == "nats" and size > MOST_NATS_BYTES
        print(f"{name:12s} {size_before / 1e6:8.1f} MB {size / 1e6:8.1f} MB  x{ratio:.3f}")
    return grown


if __name__ == "__main__":
    sys.exit(main())
