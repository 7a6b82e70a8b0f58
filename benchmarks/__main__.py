"""Runs the benchmarks, each in a process of its own; at the end a table of figures and budgets.

`python -m benchmarks [NAME …] [--small] [--long] [--resume]`; `--small` uses reduced sizes, whose
figures show that all runs but no more; `--long` adds those that take ten minutes. What each printed
is kept in build/benchmarks; `--resume` goes on there after an interruption, at the same commit.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.claims import VARIABLE, Claim, claims_in, summary_of
from benchmarks.timing import machine

FOLDER = Path("build/benchmarks")

#: Benchmarks with their arguments, and those of reduced sizes.
BENCHMARKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "pages": ("", "--evaluations 1000 --tries 3"),
        "fleet": ("", "--agents 10 30 --seconds 3 --tries 5"),
        "timeline": ("", "--rounds 1 --queries 24 --large 48 --seconds 5"),
        "live_trace": ("", "--seconds 5 --crowd-seconds 5"),
        "trace_windows": ("", "--queries 24"),
        "watched": ("", "--pairs 2 --queries 2400 --watchers 2"),
        "resource_feed": ("--turns 12", "--turns 1"),
        "feeding": ("--quick", "--quick --device-ms 40 --batches 8"),
        "pacing": ("", "--seconds 1 --repeats 1"),
        "remote_pacing": ("", ""),
        "overhead": ("", "--queries 500 --repeats 2"),
        "leveled_truth": ("", "--blocks 3"),
        "pipeline": ("", "--batches 4 --turns 2"),
        "preparation": ("", "--rounds 3"),
        "predict": ("", "--calls 30 --rounds 3"),
        "observing": ("", "--turns 1"),
        "ingest": ("", "--spans 100000 --repeats 1"),
        "connections": ("", "--spans 100000 --repeats 1"),
        "sandboxed": ("", "--rounds 1"),
        "artifacts": ("", "--megabytes 32 --repeats 1"),
        "startup": ("", ""),
        "catalog": ("", ""),
        "consistency": ("", ""),
        "layer_overhead": ("", "--calls 30 --repeats 12 --queries 60"),
        "correlate": ("", "--queries 100"),
        "stored_trace": ("", "--queries 100"),
        "against_hta": ("", ""),
    }
)
LONG: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"memory": ("", "0.5"), "floods": ("", "--rounds 1 --seconds 2 --repeats 1")}
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one benchmark ended."""

    name: str
    code: int
    seconds: float
    claims: tuple[Claim, ...]


def measure(name: str, arguments: str, folder: Path) -> Outcome:
    """Run a benchmark with `arguments`, and keep what it printed in `folder`."""
    path = folder / f"{name}.claims"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments.split()]
    environment = {**os.environ, VARIABLE: str(path), "PYTHONUNBUFFERED": "1"}
    began = time.monotonic()
    with (
        (folder / f"{name}.txt").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running,
    ):
        for line in running.stdout or ():
            print(line, end="", flush=True)
            log.write(line)
        code = running.wait()
    took_s = time.monotonic() - began
    ended = {"code": code, "seconds": took_s, "arguments": arguments, "machine": machine()}
    (folder / f"{name}.json").write_text(json.dumps(ended))
    return Outcome(name, code, took_s, tuple(claims_in(path)))


def earlier(name: str, arguments: str, folder: Path) -> Outcome | None:
    """Return how a benchmark ended before, None unless it was this commit on this machine."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    ended = json.loads(path.read_text())
    if (ended["arguments"], ended["machine"]) != (arguments, machine()):
        return None
    claims = tuple(claims_in(folder / f"{name}.claims"))
    return Outcome(name, ended["code"], ended["seconds"], claims)


def shown(outcomes: list[Outcome]) -> str:
    """Return the summary: every claim, then how each benchmark ended that makes none."""
    lines = [
        summary_of([(outcome.name, claim) for outcome in outcomes for claim in outcome.claims])
    ]
    for outcome in outcomes:
        end = "as wanted" if outcome.code == 0 else f"NOT as wanted (exit code {outcome.code})"
        lines.append(f"{outcome.name:16} {outcome.seconds:7.0f} s  {end}")
    return "\n".join(lines)


def main() -> int:
    """Run the named benchmarks, or all; return the number that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, *LONG, []])
    parser.add_argument("--small", action="store_true", help="reduced sizes")
    parser.add_argument("--long", action="store_true", help="also the ten-minute ones")
    parser.add_argument("--resume", action="store_true", help="go on after an interruption")
    options = parser.parse_args()
    every = {**BENCHMARKS, **LONG}
    names = options.names or [*BENCHMARKS, *(LONG if options.long else ())]
    folder = FOLDER / ("small" if options.small else "whole")
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in names:
        arguments = every[name][options.small]
        print(f"\n=== {name} {arguments}", flush=True)
        before = earlier(name, arguments, folder) if options.resume else None
        if before is not None:
            print((folder / f"{name}.txt").read_text("utf-8"), end="")
        outcomes.append(before or measure(name, arguments, folder))
    summary = shown(outcomes)
    (folder / "summary.txt").write_text(f"{machine()}\n\n{summary}\n", encoding="utf-8")
    print(f"\n=== summary ({machine()})\n{summary}")
    return sum(outcome.code != 0 for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
