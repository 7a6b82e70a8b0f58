"""Runs every benchmark, each in a process of its own, and prints what they print.

`python -m benchmarks [NAME …] [--long]`; `--long` adds those that take ten minutes.
"""

import argparse
import subprocess
import sys

BENCHMARKS = (
    "pacing",
    "remote_pacing",
    "overhead",
    "leveled_truth",
    "pipeline",
    "feeding",
    "preparation",
    "predict",
    "observing",
    "ingest",
    "artifacts",
    "startup",
    "catalog",
    "pages",
    "consistency",
    "layer_overhead",
    "correlate",
    "stored_trace",
    "trace_windows",
    "live_trace",
    "watched",
    "timeline",
    "against_hta",
)
LONG = ("memory",)


def main() -> int:
    """Run the named benchmarks, or all; return the number that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, *LONG, []])
    parser.add_argument("--long", action="store_true", help="also the ten-minute ones")
    options = parser.parse_args()
    names = options.names or [*BENCHMARKS, *(LONG if options.long else ())]
    failed = 0
    for name in names:
        print(f"\n=== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
