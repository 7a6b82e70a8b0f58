"""A cluster under load for hours: the memory of its services stays flat, and its disk bounded.

`python -m benchmarks.soak [--hours 2 | --minutes 10] [--figures FILE]`. One evaluation after the
other runs on a cluster of its own. Resident memory and sizes on disk are read every ten seconds,
printed every minute and, with a file, kept there as they come. A service's memory is judged by the
medians of two windows, each an eighth of the time: the end of the first quarter, when it is warm,
and the end. Claims: the second is at most 1.05 of the first, for nats-server at most its bound
instead; evaluations still end in the last window; the streams of batches, of which no backup is
made, hold at most what they may keep and 64 MiB of what is under way; a run leaves nothing behind
in the agents' folder. The log of facts and the database grow with each evaluation,
by what is printed. The scheduler lists the newest `LISTED` ended evaluations, less than by default:
its list is full, and thus no longer grows, before its memory counts as warm.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.claims import claim
from benchmarks.cluster import new_folder, running
from benchmarks.memory import MOST_NATS_BYTES, REQUEST, SERVERS, resident

MIB = 1 << 20
KEPT_BYTES = 16 * MIB
UNDER_WAY_BYTES = 64 * MIB
LEFT_BEHIND_BYTES = 16 * MIB
EVERY_S, PRINTED_S = 10.0, 60.0
MOST_GROWTH = 1.05
BATCHES = ("TRACES", "QUERIES", "OBJ_batches")
LISTED = 100
SETTINGS = {
    "MLSCOPE_KEEP_UNSAVED_BYTES": str(KEPT_BYTES),
    "MLSCOPE_PURGE_AFTER_S": "10",
    "MLSCOPE_MAX_LISTED_EVALUATIONS": str(LISTED),
}


@dataclass(frozen=True, slots=True)
class Look:
    """What a cluster used at one time, `at_s` after its beginning.

    `memory` has (process id, resident bytes) by process. `batches_bytes`, `log_bytes`,
    `database_bytes` (without its write-ahead log, which PostgreSQL reuses) and `agents_bytes` are
    sizes on disk.
    """

    at_s: float
    evaluations: int
    memory: dict[str, tuple[int, int]]
    batches_bytes: int
    log_bytes: int
    database_bytes: int
    agents_bytes: int


def size_bytes(folder: Path) -> int:
    """Return the size of the files below a folder; files and folders may vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_blocks * 512
    return total


def look(folder: Path, at_s: float, evaluations: int) -> Look:
    """Read what the cluster in `folder` uses, `at_s` into the soak, after so many `evaluations`."""
    streams = {path.name: path for path in (folder / "nats").glob("jetstream/*/streams/*")}
    sizes = {name: size_bytes(path) for name, path in streams.items()}
    batches = sum(sizes.get(name, 0) for name in BATCHES)
    return Look(
        round(at_s, 1),
        evaluations,
        resident(folder),
        batches,
        sum(sizes.values()) - batches,
        size_bytes(folder / "postgres") - size_bytes(folder / "postgres" / "data" / "pg_wal"),
        size_bytes(folder / "agents"),
    )


@contextmanager
def loading(folder: Path) -> Iterator[tuple[list[str], Future[None]]]:
    """Run one evaluation after the other for the length of a block.

    Lends how each ended, and the load, which ends early only by an error. The block raises it.
    """
    from mlscope import Client

    states: list[str] = []
    is_over = threading.Event()

    def load() -> None:
        with Client(data=folder) as client:
            while not is_over.is_set():
                states.append(client.run("tiny-cnn", wait_s=30.0, **REQUEST).wait(600).state)

    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(load)
        try:
            yield states, under_way
        finally:
            is_over.set()
        under_way.result()


def soak(folder: Path, length_s: float, figures: Path | None) -> tuple[list[Look], list[str]]:
    """Load the cluster in `folder` for `length_s`; keep each look in the file `figures`, if given.

    Returns the looks, and how each evaluation ended. Raises at once what ends the load.
    """
    looks: list[Look] = []
    began_s, printed_s = time.monotonic(), -PRINTED_S
    with loading(folder) as (states, load):
        while (at_s := time.monotonic() - began_s) < length_s and not load.done():
            looks.append(look(folder, at_s, len(states)))
            if at_s >= printed_s + PRINTED_S:
                printed_s = at_s
                print(line_of(looks[-1]), flush=True)
            if figures is not None:
                with figures.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(looks[-1])) + "\n")
            wait([load], EVERY_S)
    looks.append(look(folder, time.monotonic() - began_s, len(states)))
    return looks, states


def line_of(seen_now: Look) -> str:
    """Return one line of figures: minutes, evaluations, MB of memory and of disk."""
    memory = " ".join(f"{name} {size / 1e6:.0f}" for name, (_, size) in seen_now.memory.items())
    disk = (
        f"batches {seen_now.batches_bytes / 1e6:.0f} log {seen_now.log_bytes / 1e6:.0f} "
        f"database {seen_now.database_bytes / 1e6:.0f} agents {seen_now.agents_bytes / 1e6:.0f}"
    )
    head = f"{seen_now.at_s / 60:6.1f} min {seen_now.evaluations:6d} evaluations"
    return f"{head} | memory {memory} | disk {disk}"


def window_of(looks: Sequence[Look], first: float, last: float) -> list[Look]:
    """Return the looks between two shares of the time, `first` and `last`."""
    end_s = looks[-1].at_s
    return [at for at in looks if first * end_s <= at.at_s <= last * end_s]


def judged(looks: Sequence[Look]) -> int:
    """Print each process's memory in both windows, and the disk; return how many claims fail."""
    warm, end = window_of(looks, 1 / 8, 1 / 4), window_of(looks, 7 / 8, 1)
    missed = 0
    for name, (pid, _) in looks[-1].memory.items():
        before, after = (median(at.memory[name][1] for at in window) for window in (warm, end))
        ratio = after / before if warm[0].memory[name][0] == pid else float("inf")
        print(f"{name:12} {before / 1e6:8.1f} MB {after / 1e6:8.1f} MB  x{ratio:.3f}")
        if name not in SERVERS:
            missed += not claim(f"memory, soaked: {name}", ratio, most=MOST_GROWTH, unit="x")
        elif name == "nats":
            bound = MOST_NATS_BYTES / MIB
            missed += not claim(f"memory, soaked: {name}", after / MIB, most=bound, unit="MiB")
    ended = end[-1].evaluations - end[0].evaluations
    missed += not claim("evaluations, last window", ended, least=1, unit="evaluations")
    batches = max(at.batches_bytes for at in end) / MIB
    most = (KEPT_BYTES + UNDER_WAY_BYTES) / MIB
    missed += not claim("streams of batches, soaked", batches, most=most, unit="MiB")
    left_behind = min(at.agents_bytes for at in end) / MIB
    bound = LEFT_BEHIND_BYTES / MIB
    missed += not claim("agents' folder, soaked", left_behind, most=bound, unit="MiB")
    print(
        f"streams of batches {batches:.1f} MiB of {most:.0f}, agents' folder {left_behind:.1f} MiB"
    )
    count = max(end[-1].evaluations - warm[0].evaluations, 1)
    for name in ("log_bytes", "database_bytes"):
        grown = getattr(end[-1], name) - getattr(warm[0], name)
        print(f"{name.removesuffix('_bytes')} grows by {grown / count / 1e3:.1f} kB an evaluation")
    return missed


def main() -> int:
    """Soak a cluster; return how many claims were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--minutes", type=float, default=0.0, help="instead of hours")
    parser.add_argument("--figures", type=Path, help="file for every look, a JSON object a line")
    options = parser.parse_args()
    length_s = 60 * options.minutes or 3600 * options.hours
    with new_folder() as folder, running(folder, **SETTINGS):
        looks, states = soak(folder, length_s, options.figures)
    failed = [state for state in states if state != "analyzed"]
    print(f"{len(states)} evaluations in {length_s / 60:g} min, {len(failed)} not analyzed")
    return judged(looks) + len(failed)


if __name__ == "__main__":
    sys.exit(main())
