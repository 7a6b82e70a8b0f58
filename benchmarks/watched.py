"""What live watchers cost the measured evaluation: `python -m benchmarks.watched [--turns 6]`.

A local cluster with one agent evaluates EfficientNet-Lite0 at level framework in a closed loop,
again and again: nobody watches (A), then clients read its live spans (B), then B A, and so on.
A ratio is that of the medians of latency of a pair, B over A. Wanted: a median ratio within 2 %.
The clients run on this machine too, which others' clients do not.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.cluster import new_folder, running
from benchmarks.timing import keeping
from mlscope.client import Client

BOUND = 0.02
QUERIES = 150


def median_latency_ns(client: Client, watchers: int) -> tuple[float, int]:
    """Evaluate once, watched by some clients; return the median, and the bytes that they read."""
    load = {"name": "online", "parameters": {"queries": QUERIES}}
    evaluation = client.run("efficientnet-lite0", scenarios=[load], trace_level="framework")
    command = ["curl", "-sN", "--output", "-"]
    address = evaluation.address.replace("/evaluations/", "/api/evaluations/")
    clients = [
        subprocess.Popen(
            f"{' '.join(command)} '{address}/events?spans=1' | wc -c",
            shell=True,
            stdout=subprocess.PIPE,
        )
        for _ in range(watchers)
    ]
    evaluation.wait()
    read = sum(int(one.communicate()[0]) for one in clients)
    rows = evaluation.table("latency").rows()
    return next(row["median"] for row in rows if row["level"] == "framework"), read


def measure(folder: Path, turns: int, watchers: int) -> bool:
    """Print each pair and the median ratio; whether it is within the bound."""
    print(f"{watchers} watching; load average {os.getloadavg()[0]:.1f}")
    ratios = []
    with Client(data=folder) as client:
        median_latency_ns(client, 0)  # the model is downloaded and warm
        for turn in range(turns):
            order = (0, watchers) if turn % 2 == 0 else (watchers, 0)
            measured = {count: median_latency_ns(client, count) for count in order}
            alone_ns, watched_ns = measured[0][0], measured[watchers][0]
            ratios.append(watched_ns / alone_ns)
            print(
                f"alone {alone_ns / 1e6:7.2f} ms, watched {watched_ns / 1e6:7.2f} ms, "
                f"ratio {ratios[-1]:.3f}; {measured[watchers][1] / 1e6:.1f} MB read"
            )
    ratio = statistics.median(ratios)
    ends = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(f"median ratio {ratio:.3f} ({ends}); wanted within {BOUND}")
    return abs(ratio - 1) <= BOUND


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--watchers", type=int, default=8)
    parser.add_argument("--keep", default="", metavar="NAME", help="write results/NAME.txt too")
    options = parser.parse_args()
    with (
        keeping(options.keep, is_wanted=bool(options.keep)),
        new_folder() as folder,
        running(folder, MLSCOPE_DEFAULT_BUDGET_S="0"),
    ):
        is_good = measure(folder, options.turns, options.watchers)
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
