"""Correlation and all analyses of a large run.

`python -m benchmarks.correlate [--queries 1000] [--keep]`

1.1 M spans of a host with 1 M kernels are put into one tree, then every table is made of them, in
a process of their own whose peak memory is printed: A1 to A15 with all that they need but the tree,
and the others behind them. Wanted: 2 s, 5 s and 2 GB on two cores. Each is made a few times; the
median counts, least and most stand beside it, and CPU time, which others' load changes less.
Reading a database is no part of it (`stored_trace`), nor is a file (`against_hta`).
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

import polars as pl

from benchmarks.claims import claim
from benchmarks.timing import Timed, keeping, peak_bytes
from benchmarks.tracing import Shape, run_of
from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.analysis import digest_of, with_eager
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.tables import ANALYSES

WANTED_CORRELATE_S, WANTED_PAPERS_S, WANTED_BYTES = 2.0, 5.0, 2e9
_TIMES = 3
_LAYERED = Shape(50, 100, 1)


def analyzed(shape: Shape) -> dict[str, Any]:
    """Return what each step took, some times, and the peak memory."""
    run, layered = run_of(shape), run_of(_LAYERED, 2, Level.FRAMEWORK)
    hosts = run.spans.filter(pl.col("kind") <= int(SpanKind.LAUNCH)).height
    steps: dict[str, list[tuple[float, float]]] = {}
    placed = 0
    for _ in range(_TIMES):
        again = _fresh(run), _fresh(layered)
        placed = _timed(again, steps)
    return {
        "host_spans": hosts,
        "kernels": run.spans.height - hosts,
        "placed": placed / run.spans.height,
        "seconds": steps,
        "peak_bytes": peak_bytes(),
    }


def _fresh(run: Run) -> Run:
    """Return a run of the same rows that has nothing derived from them yet."""
    return Run(run.row, run.queries, run.spans, run.layers, run.outputs)


def _timed(runs: Sequence[Run], steps: dict[str, list[tuple[float, float]]]) -> int:
    """Take two runs through all that `analyze` does; return how many spans have a place."""
    timed = Timed()
    for run in runs:
        _ = run.correlated
    timed.note("correlate")
    measured = with_eager(runs)
    frames = Frames("benchmark", measured, tuple(run.row for run in measured))
    tables = [analysis.compute(frames) for analysis in ANALYSES if analysis.id]
    timed.note("A1 to A15")
    tables += [analysis.compute(frames) for analysis in ANALYSES if not analysis.id]
    timed.note("other tables")
    trees = [run.tree for run in measured]
    digest_of(tables)
    timed.note("trees and digest")
    for name, both in timed.seconds.items():
        steps.setdefault(name, []).append(both)
    return trees[0].filter(pl.col("method") != "none").height


def in_own_process(queries: int) -> dict[str, Any]:
    """Return what `analyzed` finds in a process of its own, with the cores it is given."""
    command = [sys.executable, "-m", "benchmarks.correlate", "--step", "--queries", str(queries)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measured


def printed(measured: dict[str, Any]) -> bool:
    """Print the figures; whether they are those wanted."""
    papers = sum(bool(analysis.id) for analysis in ANALYSES)
    print(
        f"{measured['host_spans']:,} spans of a host, {measured['kernels']:,} kernels and copies, "
        f"{measured['placed']:.1%} placed; {papers} tables of the papers, {len(ANALYSES) - papers} "
        f"others; load average {os.getloadavg()[0]:.1f}"
    )
    bounds_s = {"correlate": WANTED_CORRELATE_S, "A1 to A15": WANTED_PAPERS_S}
    is_good = True
    total_s = 0.0
    for name, times in measured["seconds"].items():
        walls, busy = [wall for wall, _ in times], median(cpu for _, cpu in times)
        middle = median(walls)
        limit = bounds_s.get(name)
        line = f"{name:18} {middle:6.2f} s ({min(walls):.2f} to {max(walls):.2f}; CPU {busy:.2f})"
        print(line + (f"  wanted at most {limit:g} s" if limit else ""))
        if limit is not None:
            is_good &= claim(f"a large run: {name}", middle, most=limit, unit="s")
        total_s += middle
    print(f"{'all of it':18} {total_s:6.2f} s")
    peak = measured["peak_bytes"]
    print(f"{'peak memory':18} {peak / 1e9:6.2f} GB  wanted at most {WANTED_BYTES / 1e9:g} GB")
    return claim("its peak memory", peak / 1e9, most=WANTED_BYTES / 1e9, unit="GB") and is_good


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", action="store_true", help="measure here and print JSON")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--keep", action="store_true", help="write results/correlate.txt too")
    options = parser.parse_args()
    if options.step:
        print(json.dumps(analyzed(Shape(queries=options.queries))))
        return 0
    with keeping("correlate", is_wanted=options.keep):
        is_good = printed(in_own_process(options.queries))
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
