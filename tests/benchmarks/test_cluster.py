"""A benchmark's cluster goes with the benchmark, whoever ends it."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = """
import signal
import sys
import time
from pathlib import Path

from benchmarks import cluster

cluster.mlscope = lambda _folder, *arguments: print(arguments[0], flush=True)
before = signal.getsignal(signal.SIGTERM)
try:
    with cluster.running(Path(sys.argv[1])):
        print("measuring", flush=True)
        time.sleep(60)
finally:
    print("restored" if signal.getsignal(signal.SIGTERM) == before else "changed", flush=True)
"""
"""A benchmark that says what it does, with a cluster that is only told of."""


def test_a_benchmark_that_is_terminated_takes_its_cluster_down(tmp_path: Path) -> None:
    """Its signal goes to a process of its own: in this one it may end more than the benchmark."""
    with subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as benchmark:
        assert benchmark.stdout is not None
        begun = [benchmark.stdout.readline(), benchmark.stdout.readline()]
        benchmark.terminate()
        rest = benchmark.stdout.read()
    assert (begun, rest) == (["up\n", "measuring\n"], "down\nrestored\n")
    assert benchmark.returncode == 1
