"""Local pacing against MLPerf LoadGen: how late the queries of one Poisson schedule are issued.

`python -m benchmarks.pacing [--rate 1000] [--seconds 5] [--repeats 3] [--peer-python PYTHON]`

Null work, one seed and so one schedule for all, in turns and turned round every other repeat; then
again beside EfficientNet-Lite0, predicting on one thread without pause. Lateness runs from due time
to the stamp just before the query is handed over; LoadGen's is `issue_start_ns` of its own trace,
stamped in the thread that then calls the system under test. Like for like with it are our pacer in
the process itself, and of the pacer in its own process the consumer's wake-up.
Our own process raises its priority where it may, so LoadGen also runs at that priority.
Wanted at 1,000 queries a second: p50 <= 2 us, p99 <= 50 us, none early.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims import claim
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.issuing import PRIORITIES, raise_priority
from mlscope.load.pacer import PacerProcess
from mlscope.load.pacing import calibrate_margin_ns, lateness_ns, pace, sharpen_timer
from mlscope.statistics import percentile

SEED = 1234
ROOT = Path(__file__).parents[1]
MODEL = ROOT / "manifests/models/efficientnet_lite0/model.onnx"
INSTALL = "no peer: pip install mlcommons-loadgen, or name a --peer-python that has it"
OURS, OURS_IN_PROCESS, PEER = "mlscope, own process", "mlscope, in process", "LoadGen Server"
COLUMNS = ("p50", "p99", "p99.9", "max", "early", "core", "others")


@dataclass(frozen=True)
class Offered:
    """The load every contestant is given."""

    rate_hz: float
    queries: int
    peer_python: str

    @property
    def due_ns(self) -> NDArray[np.int64]:
        """When each query is due."""
        return poisson_due_ns(self.rate_hz, self.queries, SEED)


@dataclass(frozen=True)
class Paced:
    """One run: how late each query was, the share of a core it took, and at which priority."""

    late_ns: NDArray[np.int64]
    core_share: float
    priority: str = "normal"


Contestant = Callable[[Offered], dict[str, Paced]]


def in_process(offered: Offered) -> dict[str, Paced]:
    """Pace from this thread."""
    sharpen_timer()
    margin_ns, due_ns = calibrate_margin_ns(), offered.due_ns
    origin_ns = time.monotonic_ns() + 5_000_000
    cpu_ns, wall_ns = time.thread_time_ns(), time.monotonic_ns()
    issued_ns = pace(due_ns, lambda _: None, origin_ns, margin_ns)
    share = (time.thread_time_ns() - cpu_ns) / (time.monotonic_ns() - wall_ns)
    return {OURS_IN_PROCESS: Paced(lateness_ns(due_ns, issued_ns, origin_ns), share)}


def own_process(offered: Offered) -> dict[str, Paced]:
    """Pace from a process of its own; and how long its consumer, here, took to wake up."""
    with PacerProcess(offered.due_ns) as pacer:
        origin_ns = pacer.start()
        waits_ns = [time.monotonic_ns() - issued_ns for _, issued_ns in pacer]
    late_ns = lateness_ns(offered.due_ns, pacer.issued_ns(), origin_ns)
    woken = Paced(np.array(waits_ns, np.int64), 0.0)
    paced = Paced(late_ns, pacer.core_share, pacer.priority)
    return {OURS: paced, "  its consumer's wake-up": woken}


def loadgen(offered: Offered) -> dict[str, Paced]:
    """Pace with LoadGen's Server scenario, in a process of its own, as it comes."""
    return {PEER: _loadgen(offered)}


def loadgen_raised(offered: Offered) -> dict[str, Paced]:
    """Pace with LoadGen at the priority that our own process has."""
    return {f"{PEER}, raised": _loadgen(offered, "--raised")}


def _loadgen(offered: Offered, *options: str) -> Paced:
    arguments = [f"--peer={offered.rate_hz}", f"--queries={offered.queries}", *options]
    command = [offered.peer_python, "-m", "benchmarks.pacing", *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT)
    report = json.loads(ran.stdout.splitlines()[-1])
    return Paced(np.array(report["late_ns"], np.int64), report["core_share"], report["priority"])


def has_loadgen(python: str) -> bool:
    """Whether that Python can run the peer."""
    return subprocess.run([python, "-c", "import mlperf_loadgen"], stderr=-3).returncode == 0


def be_loadgen(rate_hz: float, queries: int, priority: str) -> None:
    """Run LoadGen here with null work and print what its trace says, as one line of JSON."""
    import mlperf_loadgen as peer

    settings = peer.TestSettings()
    settings.scenario, settings.mode = peer.TestScenario.Server, peer.TestMode.PerformanceOnly
    settings.server_target_qps, settings.schedule_rng_seed = rate_hz, SEED
    settings.min_query_count = settings.max_query_count = queries
    settings.min_duration_ms = 0
    response = peer.QuerySampleResponse
    under_test = peer.ConstructSUT(
        lambda queue: peer.QuerySamplesComplete([response(sample.id, 0, 0) for sample in queue]),
        lambda: None,
    )
    library = peer.ConstructQSL(64, 64, lambda _: None, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        output, logs = peer.LogOutputSettings(), peer.LogSettings()
        output.outdir, logs.enable_trace = folder, True
        logs.log_output = output
        cpu_s, wall_s = time.process_time(), time.monotonic()
        peer.StartTestWithLogSettings(under_test, library, settings, logs)
        share = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
        trace = (Path(folder) / "mlperf_log_trace.json").read_text()
    # The trace is not quite JSON, so its stamps are picked out.
    late_ns = [int(sample) for sample in re.findall(r'"issue_start_ns":(-?\d+)', trace)]
    print(json.dumps({"late_ns": late_ns, "core_share": share, "priority": priority}))


def be_model() -> None:
    """Predict with EfficientNet-Lite0 on one thread until killed; say when it is warm."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: np.zeros((1, 3, 224, 224), np.float32)}
    session.run(None, feed)
    print("warm", flush=True)
    while True:
        session.run(None, feed)


@contextmanager
def beside_the_model() -> Iterator[None]:
    """Keep the model busy in a process of its own meanwhile: the same for every contestant."""
    command = [sys.executable, "-m", "benchmarks.pacing", "--model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as busy:
        try:
            if not busy.stdout or busy.stdout.readline() != b"warm\n":
                raise SystemExit("the model did not start")
            yield
        finally:
            busy.kill()


def busy_s() -> float:
    """CPU time that all processes of this machine have taken, and what was stolen from it."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, interrupts, soft, stolen = map(int, fields)
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def columns(paced: Paced, busy_cores: float) -> list[float]:
    """Lateness in us, queries issued early, and cores taken by the pacing and by all others."""
    late_us = paced.late_ns / 1e3
    tail = [percentile(late_us, p) for p in (0.5, 0.99, 0.999, 1.0)]
    early = float(np.count_nonzero(late_us < 0))
    return [*tail, early, paced.core_share, max(0.0, busy_cores - paced.core_share)]


def in_turns(
    offered: Offered, contestants: list[Contestant], repeats: int
) -> dict[str, list[float]]:
    """Run the contestants in turns, and take the median of each column over the repeats."""
    rows: dict[str, list[list[float]]] = {}
    for repeat in range(repeats):
        for contestant in contestants if repeat % 2 == 0 else contestants[::-1]:
            began_s, began_busy_s = time.monotonic(), busy_s()
            for name, paced in contestant(offered).items():
                busy_cores = (busy_s() - began_busy_s) / (time.monotonic() - began_s)
                row = name if paced.priority == "normal" else f"{name} ({paced.priority})"
                rows.setdefault(row, []).append(columns(paced, busy_cores))
    return {
        name: [median(column) for column in zip(*lateness, strict=True)]
        for name, lateness in rows.items()
    }


def show(title: str, medians: dict[str, list[float]]) -> bool:
    """Print one table, the claim and the ratios; return whether the claim holds."""
    print(f"\n{title}\n{'':30}" + "".join(f"{column:>10}" for column in COLUMNS))
    for name, values in medians.items():
        print(f"{name:30}" + "".join(f"{value:10.2f}" for value in values))
    p50, p99, _, _, early, _, _ = next(v for k, v in medians.items() if k.startswith(OURS))
    holds = p50 <= 2.0 and p99 <= 50.0 and early == 0
    print(f"claim (p50 <= 2, p99 <= 50, never early): {'holds' if holds else 'MISSED'}")
    peers = [name for name in medians if name.startswith(PEER)]
    beside = [f"{name} {medians[name][0]:.1f}, {medians[name][1]:.1f}" for name in peers]
    what = f"issued late, {title.partition(':')[0]}"
    claim(f"{what}, p50", p50, most=2.0, unit="us", peer="; ".join(beside))
    claim(f"{what}, p99", p99, most=50.0, unit="us")
    for peer, own in product(peers, [name for name in medians if name not in peers]):
        p50_ratio, p99_ratio = (medians[peer][at] / medians[own][at] for at in (0, 1))
        print(f"{peer} / {own.strip()}: {p50_ratio:.2f} x p50, {p99_ratio:.2f} x p99")
    return holds


def compare(offered: Offered, repeats: int) -> int:
    """Run both conditions and print their tables; return 1 where the claim was missed."""
    contestants: list[Contestant] = [own_process, in_process]
    if has_loadgen(offered.peer_python):
        contestants += [loadgen, loadgen_raised]
    else:
        print(INSTALL)
    claims = []
    for condition, beside in (("null work", nullcontext), ("beside a model", beside_the_model)):
        if beside is beside_the_model and not MODEL.exists():
            print(f"no {MODEL}: not run beside a model")
            continue
        with beside():
            medians = in_turns(offered, contestants, repeats)
        size = f"{offered.queries} queries at {offered.rate_hz:g}/s"
        claims.append(show(f"{condition}: {size}, medians of {repeats} runs [us; cores]", medians))
    return 0 if all(claims) else 1


def main() -> int:
    """Compare, or be one of the processes compared."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rate", type=float, default=1000.0, help="queries a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each run is")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-python", default=sys.executable, help="has mlcommons-loadgen")
    parser.add_argument("--peer", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--raised", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--queries", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        be_model()
    if options.peer:
        priority = PRIORITIES[raise_priority() if options.raised else 0]
        be_loadgen(options.peer, options.queries, priority)
        return 0
    queries = max(1, round(options.rate * options.seconds))
    return compare(Offered(options.rate, queries, options.peer_python), options.repeats)


if __name__ == "__main__":
    sys.exit(main())
