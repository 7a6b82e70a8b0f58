"""What live watchers cost the measured evaluation: `python -m benchmarks.watched [--queries 2000]`.

A local cluster with one agent evaluates EfficientNet-Lite0 at level framework in a closed loop. All
the while clients come and go: for 3 s nobody watches (A), then some read its live spans (B), and so
on. Each query is counted to the stretch in which it began; the first second of a stretch is left
out. A ratio is that of the medians of latency of a pair, B over A. Wanted: a median ratio within
2 %. The clients run on this machine too, which others' clients do not.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import httpx

from benchmarks.claims import claim
from benchmarks.cluster import new_folder, running
from benchmarks.timing import keeping
from mlscope.client import Client
from mlscope.client.synchronous import Evaluation

BOUND = 0.02
STRETCH_S, SETTLE_S = 3.0, 1.0


def bearer_of(folder: Path) -> str:
    """Return what the header `Authorization` says to the gateway of a cluster in `folder`."""
    return f"Bearer {(folder / 'keys' / 'gateway.token').read_text('ascii').strip()}"


def toggled(
    address: str, bearer: str, watchers: int, is_over: threading.Event
) -> list[tuple[int, bool]]:
    """Let clients watch the events at `address` in every second stretch until `is_over`.

    `bearer` is their authorization; one that the gateway sends away ends them.

    Return when each stretch began, in epoch ns, and whether it was watched.
    """
    stretches: list[tuple[int, bool]] = []
    watching = ["curl", "-sfN", "--output", os.devnull, "--header", f"Authorization: {bearer}"]
    while not is_over.is_set():
        is_watched = len(stretches) % 2 == 1
        clients = [
            subprocess.Popen([*watching, address]) for _ in range(watchers if is_watched else 0)
        ]
        stretches.append((time.time_ns(), is_watched))
        is_over.wait(STRETCH_S)
        if any(client.poll() not in (None, 0) for client in clients):
            raise RuntimeError("a watcher was refused: nothing was measured")
        for client in clients:
            client.kill()
            client.wait()
    return stretches


def latencies(evaluation: Evaluation, bearer: str) -> list[tuple[int, float]]:
    """Return when each query began, in epoch ns, and how long it took, in ns.

    `bearer` is the authorization at the gateway.
    """
    headers = {"Authorization": bearer}
    api = evaluation.address.replace("/evaluations/", "/api/evaluations/")
    overview = httpx.get(f"{api}/trace", headers=headers, timeout=120).json()
    (lane,) = (lane["lane"] for lane in overview["lanes"] if lane["key"] == "load/query")
    window = {"lane": lane, "columns": "start,duration", "format": "json"}
    address = f"{api}/runs/{overview['run']}/spans"
    answer = httpx.get(address, params=window, headers=headers, timeout=120)
    columns, origin_ns = answer.json()["columns"], overview["origin_epoch_ns"]
    starts = (origin_ns + int(start) for start in columns["start"])
    return list(zip(starts, columns["duration"], strict=True))


def measure(folder: Path, queries: int, watchers: int) -> bool:
    """Evaluate once, print the medians of each pair; whether their ratio is within the bound."""
    load = {"name": "online", "parameters": {"queries": queries}}
    with Client(data=folder) as client:
        client.run("efficientnet-lite0").wait()  # the model is downloaded
        print(f"{watchers} watching in turns; load average {os.getloadavg()[0]:.1f}")
        evaluation = client.run(
            "efficientnet-lite0", scenarios=[load], trace_level="framework", levels=["framework"]
        )
        api = evaluation.address.replace("/evaluations/", "/api/evaluations/")
        is_over, stretches = threading.Event(), list[tuple[int, bool]]()
        address, bearer = f"{api}/events?spans=1", bearer_of(folder)
        thread = threading.Thread(
            target=lambda: stretches.extend(toggled(address, bearer, watchers, is_over))
        )
        thread.start()
        evaluation.wait()
        is_over.set()
        thread.join()
    return printed(stretches, latencies(evaluation, bearer))


def printed(stretches: list[tuple[int, bool]], queries: list[tuple[int, float]]) -> bool:
    """Print the ratios of pairs of stretches in which queries ran."""
    medians: list[tuple[bool, float]] = []
    for (begin_ns, is_watched), (end_ns, _) in pairwise(stretches):
        first_ns = begin_ns + int(SETTLE_S * 1e9)
        inside = [duration for start, duration in queries if first_ns <= start < end_ns]
        if len(inside) >= 10:
            medians.append((is_watched, statistics.median(inside)))
    alone = [median for is_watched, median in medians if not is_watched]
    watched = [median for is_watched, median in medians if is_watched]
    ratios = [b / a for a, b in zip(alone, watched, strict=False)]
    if not ratios:
        print("too few queries")
        return False
    ratio = statistics.median(ratios)
    pooled = statistics.median(watched) / statistics.median(alone)
    print(
        f"{len(ratios)} pairs, {len(queries)} queries: alone {statistics.median(alone) / 1e6:.2f} "
        f"ms, watched {statistics.median(watched) / 1e6:.2f} ms (ratio {pooled:.3f})"
    )
    ends = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(f"median of the pairs' ratios {ratio:.3f} ({ends}); wanted within {BOUND}")
    if abs(ratio - 1) <= BOUND < max(abs(one - 1) for one in ratios):
        print("the range goes beyond that: the median alone is within it")
    moved = abs(ratio - 1) * 100
    return claim(
        "watchers move the measured by", moved, most=BOUND * 100, unit="%", peer="not watched"
    )


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--watchers", type=int, default=8)
    parser.add_argument("--keep", default="", metavar="NAME", help="write results/NAME.txt too")
    options = parser.parse_args()
    with (
        keeping(options.keep, is_wanted=bool(options.keep)),
        new_folder() as folder,
        running(folder, MLSCOPE_DEFAULT_BUDGET_S="0"),
    ):
        is_good = measure(folder, options.queries, options.watchers)
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
