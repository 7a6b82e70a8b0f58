"""What the sandbox of a worker costs: a session's start, and a call of its model.

`python -m benchmarks.sandboxed [--rounds 10] [--device gpu] [--keep]`. Sessions of one model, each
in a worker process, take turns with the sandbox off and required. A start runs from the beginning
of the plan until the model is open and warm. On a GPU the model is ResNet-50 in PyTorch, on a CPU
EfficientNet-Lite0 in ONNX Runtime. Wanted: a start at most 50 ms later, a call within 2 %.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.claims import claim
from benchmarks.survey.listed import Listed
from benchmarks.survey.measuring import ALLOWED
from benchmarks.timing import keeping
from cli.offline.planning import offline_plan, offline_request, shipped_catalog
from mlscope.statistics.intervals import percentile_interval
from schemas.plan import OfflinePlan
from schemas.request import Evaluate
from schemas.run import RunCompleted
from services.agent.host.offline import SHIPPED_MANIFESTS, OfflineResources, run_plan
from services.agent.machine.landlock import confine
from services.agent.worker.sandbox.sandbox import reach_of

MODELS = {"gpu": "torchvision-resnet50", "cpu": "efficientnet-lite0"}
QUERIES = 60
MOST_START_MS, MOST_CALL = 50.0, 0.02
OFF, REQUIRED = "off", "required"
Turns = Mapping[str, Sequence[tuple[float, float]]]
"""Start (ms) and median call (ms) of each session, by sandbox."""


def plan_for(device: str) -> OfflinePlan:
    """Return the plan of a run at level model on a device."""
    fields: dict[str, Any] = {
        "system": {"device": device},
        "scenarios": [{"name": "online", "parameters": {"queries": QUERIES}}],
        "batch_sizes": [1],
        "trace_level": "model",
        "blocks": {"least": 3, "most": 3},
    }
    model: Any = MODELS[device]
    if device == "gpu":
        model = Listed(model, is_random=True).subject(device).model
    request = offline_request(Evaluate(model=model, **fields))
    return offline_plan(request, shipped_catalog(SHIPPED_MANIFESTS))


def session(plan: OfflinePlan, sandbox: str, folder: Path) -> tuple[float, float]:
    """Return the start (ms) and the median call (ms) of a session in a sandbox or none."""
    resources = OfflineResources(allowances=replace(ALLOWED, sandbox=sandbox))
    began_ns = time.monotonic_ns()
    (outcome,) = run_plan(plan, folder / "session.bundle", resources)
    assert isinstance(outcome, RunCompleted), outcome
    opened_ns = outcome.origin.monotonic_ns
    calls_ms = [block.median_ns / 1e6 for block in outcome.blocks]
    return (opened_ns - began_ns) / 1e6, median(calls_ms)


def confining_ms() -> float:
    """Return how long a process takes to confine itself."""
    reading, writing = os.pipe()
    with TemporaryDirectory() as scratch:
        pid = os.fork()
        if not pid:
            began = time.perf_counter()
            confine(reach_of([SHIPPED_MANIFESTS], Path(scratch), []), ())
            os.write(writing, str((time.perf_counter() - began) * 1e3).encode())
            os._exit(0)
        os.waitpid(pid, 0)
    taken_ms = float(os.read(reading, 64))
    os.close(reading)
    os.close(writing)
    return taken_ms


def shown(turns: Turns) -> int:
    """Print both, and the claims; return how many were missed."""
    for name, rows in turns.items():
        starts, calls = zip(*rows, strict=True)
        print(f"{name:9} start {median(starts):8.0f} ms, call {median(calls):7.3f} ms")
    pairs = list(zip(turns[REQUIRED], turns[OFF], strict=True))
    delays_ms = [inside[0] - outside[0] for inside, outside in pairs]
    growths = [inside[1] / outside[1] - 1 for inside, outside in pairs]
    later_ms, longer = median(delays_ms), median(growths)
    claim("a sandboxed session starts later by", later_ms, most=MOST_START_MS, unit="ms")
    claim("a sandboxed call takes longer by", longer * 100, most=MOST_CALL * 100, unit="%")
    print(f"start {later_ms:+.0f} ms{ends_text(delays_ms, '.0f')}")
    print(f"call {longer:+.1%}{ends_text(growths, '.1%')}")
    print(f"confining itself takes a process {median(confining_ms() for _ in range(9)):.1f} ms")
    return (later_ms > MOST_START_MS) + (longer > MOST_CALL)


def ends_text(values: Sequence[float], form: str) -> str:
    """Return the ends of a median's 95 % interval in a format; '' where there are too few."""
    interval = percentile_interval(values, 0.5)
    if interval.low is None or interval.high is None:
        return ""
    return f" (95 %: {interval.low:+{form}} to {interval.high:+{form}})"


def main() -> int:
    """Print medians of alternated sessions; return how many claims were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", choices=MODELS, default="cpu")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    plan = plan_for(options.device)
    turns: dict[str, list[tuple[float, float]]] = {OFF: [], REQUIRED: []}
    with (
        keeping(f"sandboxed_{options.device}", is_wanted=options.keep),
        TemporaryDirectory() as folder,
    ):
        for number in range(options.rounds + 1):
            for name in [OFF, REQUIRED][:: -1 if number % 2 else 1]:
                row = session(plan, name, Path(folder))
                if number:  # the first session of each warms the file cache
                    turns[name].append(row)
        return shown(turns)


if __name__ == "__main__":
    sys.exit(main())
