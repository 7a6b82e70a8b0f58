"""What processes on other cores do to a launch-bound predict, and whether cores apart cure it.

`python -m benchmarks.cores_apart [--rounds 7] [--calls 25] [--only NAME …] [--keep]`, on a machine
with a GPU and several cores. The thread that predicts stays on one core. A process is kept on each
other one, stopped and continued: it computes in registers (`spin`), or decodes and resizes
photographs (`prepare`). Each round times predict alone and with some of them running, in a turning
order. Printed are medians of the ratio to alone: by the core of a single busy process, the worst
of which shares the predicting core's units, for all others, and for all but that one.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.host_device import CASES, call_ms, filled, ratio_text
from benchmarks.timing import keeping
from services.agent.machine.cores import cores_set_aside, kept_on
from services.agent.predictors import predictor_named

PHOTOS = Path(__file__).resolve().parent.parent / "manifests" / "datasets" / "photos"
SETTLE_S = 0.01
NAMES = ("resnet50 float32 1", "resnet50 bfloat16 32")
WORK_BY_KIND = {
    "spin": "while True: sum(range(1000))",
    "prepare": """
import io, sys
from pathlib import Path
from PIL import Image
bodies = [path.read_bytes() for path in sorted(Path(sys.argv[1]).glob("*.jpg"))]
while True:
    for body in bodies:
        Image.open(io.BytesIO(body)).convert("RGB").resize((224, 224))
""",
}


@contextmanager
def stopped_processes(work: str, cores: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield the ids of processes that do some `work`, by the core each is kept on, stopped."""
    processes = {}
    try:
        for core in cores:
            command = [sys.executable, "-c", work, str(PHOTOS)]
            process = subprocess.Popen(command, preexec_fn=lambda: os.nice(10))
            os.sched_setaffinity(process.pid, {core})
            processes[core] = process
        time.sleep(1.0)  # they have started
        pids = {core: process.pid for core, process in processes.items()}
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        yield pids
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def timed_ms(
    predict: Any, scenes: Mapping[str, Sequence[int]], rounds: int, calls: int
) -> dict[str, list[float]]:
    """Return predict's times by scene: which processes run meanwhile."""
    times_ms: dict[str, list[float]] = {name: [] for name in scenes}
    names = list(scenes)
    for turn in range(rounds):
        place = turn * 5 % len(names)
        for name in names[place:] + names[:place]:
            for pid in scenes[name]:
                os.kill(pid, signal.SIGCONT)
            time.sleep(SETTLE_S)
            times_ms[name].append(call_ms(predict, calls))
            for pid in scenes[name]:
                os.kill(pid, signal.SIGSTOP)
    return times_ms


def report(kind: str, predict: Any, core: int, rounds: int, calls: int) -> None:
    """Time predict on a `core` beside processes of a kind, and print the ratios."""
    other_cores = sorted(os.sched_getaffinity(0) - {core})
    with stopped_processes(WORK_BY_KIND[kind], other_cores) as pids, kept_on(frozenset({core})):
        singles = {f"core {other_core}": [pids[other_core]] for other_core in other_cores}
        single_ms = timed_ms(predict, {"alone": [], **singles}, rounds, calls)
        ratios = {name: median(single_ms[name]) / median(single_ms["alone"]) for name in singles}
        worst = max(ratios, key=lambda name: ratios[name])
        usual = min(ratios, key=lambda name: abs(ratios[name] - median(ratios.values())))
        scenes = {
            "alone": [],
            "all others": list(pids.values()),
            f"all but {worst}": [pid for pid in pids.values() if pid not in singles[worst]],
            f"all but {usual}": [pid for pid in pids.values() if pid not in singles[usual]],
        }
        times_ms = timed_ms(predict, scenes, rounds, calls)
    shown = ", ".join(
        f"{name.removeprefix('core ')}: {value:.2f}" for name, value in ratios.items()
    )
    print(f"  {kind}, one at a time, by core: {shown}", flush=True)
    for name, values in times_ms.items():
        ratio = ratio_text(values, times_ms["alone"])
        print(f"  {kind}, {name:16} {median(values):8.3f} ms  {ratio} of alone", flush=True)


def main() -> int:
    """Print what each kind of process does to each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    usable = frozenset(os.sched_getaffinity(0))
    aside = cores_set_aside(usable, len(usable))
    core = min(aside, default=min(usable))
    with keeping("cores_apart", is_wanted=options.keep):
        print(f"{len(usable)} cores; set aside {sorted(aside) or 'none'}; predict on {core}")
        for case in CASES:
            if case.name not in options.only:
                continue
            predictor: Any = predictor_named("pytorch")(case.request())
            batches = filled(case)

            def predict(number: int, predictor: Any = predictor, batches: Any = batches) -> object:
                return predictor.predict(batches[number])

            call_ms(predict, options.calls)
            print(case.name)
            for kind in WORK_BY_KIND:
                report(kind, predict, core, options.rounds, options.calls)
            predictor.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
