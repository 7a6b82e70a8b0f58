"""JPEG to prediction: the agent's pipeline beside the same steps in a plain loop.

`python -m benchmarks.pipeline [--batches 20] [--batch-size 32] [--turns 5]`

EfficientNet-Lite0 on ONNX Runtime over the shipped photographs. Ours is the agent's own group of
a `batched` run at level model, its spans, rows and batches included; the plain loop applies the
same operators one after the other, fills the same array, calls `session.run` and the steps behind.
Turns of all alternate. Wanted, in samples a second: with one predict thread in both 1.4 times the
plain loop; against a plain loop with two predict threads never slower with the same two, the
default on two cores (one of ours alone is shown beside it: what the framework takes on one thread
bounds it); and 0.68 of the bound min(1 / slowest stage, cores / CPU-seconds a sample), its times
taken from the plain loop of one thread (the time to prepare is divided by the processes that do).
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort
import yaml

from benchmarks.claims import claim
from benchmarks.overhead import answered_columns
from schemas.level import Level
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from services.agent.link.fetched_file import NO_FILES
from services.agent.link.ring import Handover
from services.agent.predictors.options import usable_cores
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import SessionEnvironment, open_session_in
from services.agent.worker.session import Session

MANIFESTS = Path(__file__).parents[1] / "manifests"
WANTED_RATIO, WANTED_LEAST, WANTED_SHARE = 1.4, 1.0, 0.68
OURS, OURS_TWO = "mlscope, 1 predict thread", "mlscope, 2"
PLAIN, PLAIN_TWO = "plain loop, 1", "plain loop, 2"


@dataclass(frozen=True, slots=True)
class Turn:
    """One measurement: seconds a sample, whole, by stage and of CPU."""

    whole_s: float
    before_s: float = 0.0
    predict_s: float = 0.0
    behind_s: float = 0.0
    cpu_s: float = 0.0


def subject(threads: int) -> Subject:
    """Return EfficientNet-Lite0 over the photographs, with so many predict threads."""
    model = yaml.safe_load((MANIFESTS / "models/efficientnet_lite0.yml").read_text())
    dataset = yaml.safe_load((MANIFESTS / "datasets/photos.yml").read_text())
    return Subject(
        model=ModelManifest.model_validate(model),
        dataset=DatasetManifest.model_validate(dataset),
        framework="onnxruntime",
        options={"threads": threads},
    )


def ours(session: Session, handover: Handover, batch_size: int, batches: int) -> Callable[[], Turn]:
    """Return a measurement of the agent's pipeline, from the first issue to the last answer."""
    plan = RunPlan(
        run="r0",
        group=0,
        scenario="batched",
        parameters={"queries": batches, "samples": "streamed"},
        level=Level.MODEL,
        queries=batches,
        timeout_s=600.0,
    )
    sessions = SessionPlan(session="s0", agent="bench", batch_size=batch_size, runs=(plan,))
    order = WorkOrder(
        evaluation="bench",
        attempt=1,
        agent="bench",
        session=sessions,
        subject=session.subject,
        runs=("r0",),
    )

    def measure() -> Turn:
        began = time.process_time()
        for _ in Group(session, order, Control(), handover.push, lambda _: None).perform():
            pass
        cpu_s = time.process_time() - began
        columns = answered_columns(handover)
        samples = int(columns["size"].sum())
        whole_s = float(columns["ended_ns"].max() - columns["issued_ns"].min()) * 1e-9
        return Turn(whole_s / samples, cpu_s=cpu_s / samples)

    return measure


def plain(
    session: Session, graph: bytes, threads: int, batch_size: int, batches: int
) -> Callable[[], Turn]:
    """Return a measurement of the same steps one after the other."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    network = ort.InferenceSession(graph, settings, providers=["CPUExecutionProvider"])
    name = network.get_inputs()[0].name
    samples, pipeline = session.supply.samples, session.supply.pipeline
    before, behind = pipeline.before[0].steps, pipeline.after[0].steps
    array = np.zeros_like(session.slots[0].arrays[0])

    def batch(number: int) -> tuple[float, float, float, float]:
        stamps = [time.perf_counter()]
        for position in range(batch_size):
            value: Any = samples[(number * batch_size + position) % len(samples)]
            for operator in before:
                value = operator.apply(value)
            array[position] = value
        stamps.append(time.perf_counter())
        value = network.run(None, {name: array})[0]
        stamps.append(time.perf_counter())
        for operator in behind:
            value = operator.apply(value)
        stamps.append(time.perf_counter())
        return tuple(stamps)  # type: ignore[return-value]

    def measure() -> Turn:
        cpu, began = time.process_time(), time.perf_counter()
        stamps = np.array([batch(number) for number in range(batches)])
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        stages = np.diff(stamps, axis=1).sum(axis=0)
        return Turn(*(float(seconds) / (batches * batch_size) for seconds in (wall, *stages, cpu)))

    return measure


def in_turns(contestants: dict[str, Callable[[], Turn]], turns: int) -> dict[str, list[Turn]]:
    """Measure all of them in turn, forwards and backwards; the first time warms them."""
    measured: dict[str, list[Turn]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name in list(contestants)[:: -1 if turn % 2 else 1]:
            measured[name].append(contestants[name]())
    return {name: own_turns[1:] for name, own_turns in measured.items()}


def printed(turns_by_name: dict[str, list[Turn]], workers: int) -> int:
    """Print every contestant and the three claims; return how many were missed."""
    cores = usable_cores()
    fields = ("whole_s", "before_s", "predict_s", "behind_s", "cpu_s")
    print(f"{'ms a sample':28}" + "".join(f"{field[:-2]:>9}" for field in fields) + "  samples/s")
    for name, turns in turns_by_name.items():
        values = [median(getattr(turn, field) for turn in turns) * 1e3 for field in fields]
        print(f"{name:28}" + "".join(f"{value:9.2f}" for value in values), end="")
        print(f"  {1e3 / values[0]:9.1f}")
    stages = turns_by_name[PLAIN]
    slowest = max(median(t.before_s for t in stages) / workers, median(t.predict_s for t in stages))
    bound = min(1 / slowest, cores / median(turn.cpu_s for turn in stages))
    share = 1 / median(turn.whole_s for turn in turns_by_name[OURS]) / bound
    claims = [
        (
            "times the plain loop, one predict thread in both",
            _ratio(turns_by_name, OURS, PLAIN),
            WANTED_RATIO,
        ),
        (
            "times the plain loop with two predict threads, two in both",
            _ratio(turns_by_name, OURS_TWO, PLAIN_TWO),
            WANTED_LEAST,
        ),
        (f"share of the bound of {bound:.1f} samples/s", share, WANTED_SHARE),
    ]
    print(
        f"{_ratio(turns_by_name, OURS, PLAIN_TWO):6.3f} times that with one predict thread of ours"
    )
    for text, value, limit in claims:
        claim(text, value, least=limit, unit="x", peer="a plain loop")
        print(f"{value:6.3f} {text}; wanted {limit:g}: {'yes' if value >= limit else 'NO'}")
    return sum(value < limit for _, value, limit in claims)


def _ratio(turns_by_name: dict[str, list[Turn]], own: str, peer: str) -> float:
    """Return the median over the turns of the throughputs' ratio."""
    pairs = zip(turns_by_name[peer], turns_by_name[own], strict=True)
    return median(theirs.whole_s / mine.whole_s for theirs, mine in pairs)


def main() -> int:
    """Measure in turns and print; return how many claims were missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    size, batches = options.batch_size, options.batches
    graph = (MANIFESTS / "models/efficientnet_lite0/model.onnx").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        session, two = (
            open_session_in(
                SessionEnvironment(Path(folder, str(threads)), in_flight=2),
                subject(threads),
                size,
                MANIFESTS,
                NO_FILES,
            )
            for threads in (1, 2)
        )
        handover = Handover.create(64 << 20, 1 << 20, Path(folder))
        turns_by_name = in_turns(
            {
                OURS: ours(session, handover, size, batches),
                OURS_TWO: ours(two, handover, size, batches),
                PLAIN: plain(session, graph, 1, size, batches),
                PLAIN_TWO: plain(session, graph, 2, size, batches),
            },
            options.turns,
        )
        pool = session.supply.pool
        assert pool is not None
        assert pool.started is not None, pool.refusal
        workers = pool.started.processes
        session.close()
        two.close()
    print(
        f"EfficientNet-Lite0, batch {size}, {batches} batches, medians of {options.turns} turns,"
        f" {usable_cores()} cores, {workers} preparing, load {os.getloadavg()[0]:.1f}"
    )
    return printed(turns_by_name, workers)


if __name__ == "__main__":
    sys.exit(main())
