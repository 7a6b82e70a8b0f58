"""A large run in a real PostgreSQL: read, correlated, analyzed and written by the analyzer's own.

`python -m benchmarks.stored_trace [--queries 1000] [--most-spans N] [--keep NAME]`

A server of the embedded wheel takes a made-up run through the collector's own store (binary COPY,
attributes of layers and kernels as torch.profiler's collector writes them): 1,000 queries are 1.1 M
spans of a host and 1 M kernels, 5,000 are 10.5 M spans; beside it a run at level framework. Then a
process of its own does what the analyzer does when an evaluation was measured: read, analyze,
write. Printed are the time of each, the peak memory of that process and of its server's, and what
the tables say of spans that were left out: above `--most-spans` (4 M unless set) they are. Wanted:
2 GB or less for 1 M + 1 M; for 10 M bounded (3 GB as shipped), and said.
"""

import argparse
import multiprocessing
import os
import sys
import time
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from psycopg import connect

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from benchmarks.stored_run import EVALUATION, MEASURED, stored
from benchmarks.timing import Timed, cpu_s, keeping, peak_bytes
from cli.cluster.servers.postgres import Postgres
from services.analyzer.analysis import analyze
from services.analyzer.frames.bounds import Bounds
from services.analyzer.store import Store

WANTED_BYTES, BOUNDED_BYTES = 2e9, 3e9
"""Of 1 M spans and 1 M kernels; and of the most that is read with the bound as it is shipped."""
_SPAWN = multiprocessing.get_context("spawn")


def analyzed(address: str, server: int, bounds: Bounds, queue: Any) -> None:
    """Do what the analyzer does with a measured evaluation; put what it took into a `queue`.

    `server` is the process of the database's.
    """
    timed, base, busy_s = Timed(), peak_bytes(), [cpu_s(server)]
    with closing(Store(address, bounds)) as store:
        frames = store.read(EVALUATION, MEASURED)
        timed.note("read")
        busy_s.append(cpu_s(server))
        memory = {"started": base, "read": peak_bytes()}
        spans = sum(run.spans.height for run in frames.measured)
        analysis = analyze(frames)
        timed.note("analyze")
        busy_s.append(cpu_s(server))
        memory["analyze"] = peak_bytes()
        store.write(EVALUATION, analysis)
        timed.note("write")
        busy_s.append(cpu_s(server))
        memory["write"] = peak_bytes()
    caveats = {table.name: list(table.caveats) for table in analysis.tables}
    queue.put(
        {
            "spans": spans,
            "seconds": timed.seconds,
            "memory": memory,
            "server": _server_peak(address),
            "server_s": [after - before for before, after in pairwise(busy_s)],
            "caveats": caveats["kernels_by_layer"],
            "tables": len(analysis.tables),
            "rows": sum(len(table.rows) for table in analysis.tables),
            "silent": [
                name
                for name, table_caveats in caveats.items()
                if not any("spans were read" in caveat for caveat in table_caveats)
            ],
        }
    )


def _server_peak(address: str) -> int:
    """Return the most memory one of the server's processes held, shared buffers among it."""
    with connect(address, autocommit=True) as session:
        pids = session.execute("SELECT pid FROM pg_stat_activity").fetchall()
    peaks = []
    for (pid,) in pids:
        with suppress(OSError):
            peaks.append(peak_bytes(pid))
    return max(peaks, default=0)


def measure(queries: int, bounds: Bounds) -> dict[str, Any]:
    """Return what filling and analyzing one evaluation took."""
    with new_folder() as folder, Postgres(Path(folder)) as postgres:
        address = postgres.admin_url()
        began_s = time.monotonic()
        spans = stored(address, queries)
        filled_s = time.monotonic() - began_s
        queue = _SPAWN.SimpleQueue()
        process = _SPAWN.Process(target=analyzed, args=(address, postgres.pid, bounds, queue))
        process.start()
        report: dict[str, Any] = queue.get()
        process.join()
    return {**report, "stored": spans, "filled_s": filled_s}


def printed(report: dict[str, Any], bounds: Bounds) -> bool:
    """Print what it took; whether memory stayed where it is wanted."""
    print(
        f"{report['stored']:,} spans in PostgreSQL (stored in {report['filled_s']:.0f} s), bound "
        f"{bounds.spans:,}: {report['spans']:,} read, "
        f"{report['tables']} tables of {report['rows']:,} "
        f"rows; load average {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'':10} {'wall, s':>8} {'CPU, s':>7} {'server CPU, s':>14} {'peak memory so far, GB':>23}"
    )
    for (step, (wall, cpu)), server in zip(
        report["seconds"].items(), report["server_s"], strict=True
    ):
        gb = report["memory"][step] / 1e9
        print(f"{step:10} {wall:8.2f} {cpu:7.2f} {server:14.2f} {gb:23.2f}")
    print(f"before the first of them: {report['memory']['started'] / 1e9:.2f} GB")
    print(f"largest process of the server: {report['server'] / 1e9:.2f} GB (256 MiB are buffers)")
    is_cut = report["spans"] < report["stored"]
    print("what the tables say of it:" if is_cut else "nothing was left out")
    for caveat in report["caveats"] if is_cut else ():
        print(f"  {caveat}")
    if is_cut and report["silent"]:
        print(f"tables that do not say so: {', '.join(report['silent'])}")
    bound_bytes = BOUNDED_BYTES if is_cut else WANTED_BYTES
    peak_gb = report["memory"]["write"] / 1e9
    is_small = claim("a stored run analyzed: memory", peak_gb, most=bound_bytes / 1e9, unit="GB")
    print(f"wanted: {bound_bytes / 1e9:g} GB or less: {'yes' if is_small else 'no'}")
    return is_small


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--most-spans", type=int, default=Bounds().spans)
    parser.add_argument("--keep", default="", metavar="NAME", help="write results/NAME.txt too")
    options = parser.parse_args()
    bounds = Bounds(**{**asdict(Bounds()), "spans": options.most_spans})
    with keeping(options.keep, is_wanted=bool(options.keep)):
        is_good = printed(measure(options.queries, bounds), bounds)
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
