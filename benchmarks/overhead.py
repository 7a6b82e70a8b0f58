"""What mlscope adds to a query: Identity, one at a time, beside bare `session.run` calls.

`python -m benchmarks.overhead [--queries 5000] [--repeats 5]`

The floor is `session.run(None, feed)` in a loop, in the same process, in turns with the agent's
own group of runs at levels none and model (query rows, spans, batches into the ring and all). A
query's share of the whole time is compared, from the first issue to the last answer, so what
happens between queries counts as well; beside it, the median latency that the run reports.
Wanted: 30 us or less over the floor, at both levels.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime as ort
import yaml

from benchmarks.claims import claim
from mlscope.tracing.batches import columns_of
from schemas.batch import QueriesAnswered
from schemas.level import Level
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from services.agent.link.batches import unpack_batch
from services.agent.link.ring import Handover
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from services.agent.worker.session import Session

MANIFESTS = Path(__file__).parents[1] / "manifests"
WANTED_US = 30.0
LEVELS = (Level.NONE, Level.MODEL)


def subject() -> Subject:
    """Return Identity on ONNX Runtime, one thread."""
    model = yaml.safe_load((MANIFESTS / "models/identity.yml").read_text())
    dataset = yaml.safe_load((MANIFESTS / "datasets/vectors.yml").read_text())
    return Subject(
        model=ModelManifest.model_validate(model),
        dataset=DatasetManifest.model_validate(dataset),
        framework="onnxruntime",
        options={"threads": 1},
    )


def bare(queries: int) -> Callable[[], tuple[float, float]]:
    """Return a measurement of plain calls: (whole time a call, median of a call), us."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    path = str(MANIFESTS / "models/identity/model.onnx")
    session = ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    feed = {"x": np.random.default_rng(1).standard_normal((1, 4), np.float32)}

    def measure() -> tuple[float, float]:
        stamps = np.empty(queries + 1, np.int64)
        stamps[0] = time.monotonic_ns()
        for index in range(queries):
            session.run(None, feed)
            stamps[index + 1] = time.monotonic_ns()
        return (stamps[-1] - stamps[0]) / queries / 1e3, float(np.median(np.diff(stamps))) / 1e3

    return measure


def ours(
    session: Session, handover: Handover, level: Level, queries: int
) -> Callable[[], tuple[float, float]]:
    """Return a measurement of the agent's queries: (whole time a query, median latency), us."""
    plan = RunPlan(
        run="r0",
        group=0,
        scenario="online",
        parameters={"queries": queries},
        level=level,
        queries=queries,
    )
    sessions = SessionPlan(session="s0", agent="bench", batch_size=1, runs=(plan,))
    order = WorkOrder(
        evaluation="bench",
        attempt=1,
        agent="bench",
        session=sessions,
        subject=session.subject,
        runs=("r0",),
    )

    def measure() -> tuple[float, float]:
        group = Group(session, order, Control(), handover.push, lambda _: None)
        for _ in group.perform():
            pass
        columns = answered_columns(handover)
        issued, ended = columns["issued_ns"], columns["ended_ns"]
        assert len(issued) == queries
        whole_us = float(ended[-1] - issued[0]) / 1e3
        return whole_us / queries, float(np.median(ended - issued)) / 1e3

    return measure


def answered_columns(handover: Handover) -> dict[str, np.ndarray]:
    """Return the columns of all queries that were handed over: those a collector would store."""
    parts = []
    while (body := handover.pop()) is not None:
        fact = unpack_batch(body)
        if isinstance(fact, QueriesAnswered):
            parts.append(columns_of(fact))
            assert not parts[-1]["status"].any(), fact.error_texts
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def main() -> int:
    """Measure in turns, print a line for each, return 1 when one is above what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(subject(), 1, MANIFESTS, Path(folder))
        handover = Handover.create(64 << 20, 1 << 20, Path(folder))
        contestants = {
            "bare session.run": bare(options.queries),
            **{
                f"mlscope, level {level.name.lower()}": ours(
                    session, handover, level, options.queries
                )
                for level in LEVELS
            },
        }
        turns = [
            {name: measure() for name, measure in contestants.items()}
            for _ in range(options.repeats + 1)
        ]
    # The first turn warms all of them.
    results = {name: [turn[name] for turn in turns[1:]] for name in contestants}
    return _printed(results, options)


def _printed(results: dict[str, list[tuple[float, float]]], options: argparse.Namespace) -> int:
    print(f"Identity, online, {options.queries} queries, median of {options.repeats} turns, us")
    print(f"{'':24} {'a query':>8} {'over':>7} {'p50 of one':>11}")
    floor = median(total for total, _ in results["bare session.run"])
    failed = 0
    for name, turns in results.items():
        total, outside = median(turn[0] for turn in turns), median(turn[1] for turn in turns)
        over = total - floor
        failed += over > WANTED_US
        if name != "bare session.run":
            claim(
                f"over a bare query: {name}",
                over,
                most=WANTED_US,
                unit="us",
                peer=f"bare {floor:.1f}",
            )
        print(f"{name:24} {total:8.2f} {over:7.2f} {outside:11.2f}")
    print(f"wanted: over <= {WANTED_US:g} us: {'no' if failed else 'yes'}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
