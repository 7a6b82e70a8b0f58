"""What publishing costs the measured: queries at level model with and without services beside them.

`python -m benchmarks.observing [--turns 6] [--keep]`

One worker with one opened model, one nats-server, one collector and one PostgreSQL, all on this
machine. Three modes take turns (A B C C B A …): *apart*, batches stay in the ring until the run is
over; *live*, the agent takes them once a second, as it does by default, publishes them, and the
collector copies them into the database; *at once*, it takes them as they come, ten times a second,
as it did before. A ratio is that of one turn, over *apart*. Wanted for EfficientNet-Lite0 *live*,
on one core and on all: a median and a 90th percentile within 2 %. Beside it the tiny CNN, whose
queries take some 30 us: many more spans a second than a real model makes.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvloop
import yaml

from benchmarks.claims import claim
from benchmarks.ingest import EVALUATION, Servers, open_world, start_runs
from benchmarks.timing import keeping
from mlscope.bus.nats import connect
from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, QueriesAnswered
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.message import Fact
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from services.agent.host.batch_taking import BatchTaking
from services.agent.host.execution import Execution
from services.agent.host.process import LIVE_INTERVAL_S, WorkerLimits, WorkerProcess
from services.agent.host.publishing.dropped_batches import DroppedBatches
from services.agent.host.publishing.outbox import BusSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.link.messages import OrderDone, PerformOrder
from services.agent.predictors.options import usable_cores

MANIFESTS = Path(__file__).parents[1] / "manifests"
BOUND = 0.02
LIMITS: Mapping[str, Any] = {"ring_bytes": 64 << 20, "spool_bytes": 256 << 20}


@dataclass(frozen=True)
class Case:
    """A model with its dataset, threads, and queries in a turn."""

    model: str
    dataset: str
    threads: int
    queries: int


CASES = (
    Case("efficientnet_lite0", "photos", 1, 300),
    Case("efficientnet_lite0", "photos", usable_cores(), 600),
    Case("tiny_cnn", "noise32", 1, 50_000),
)
MODES = ("apart", "live", "at once")
Figures = tuple[float, float, float]
"""Median and 90th percentile of latency (ns), and queries a second."""


def order_of(case: Case, turn: int) -> WorkOrder:
    """Return one turn as an order."""
    model = yaml.safe_load((MANIFESTS / f"models/{case.model}.yml").read_text())
    dataset = yaml.safe_load((MANIFESTS / f"datasets/{case.dataset}.yml").read_text())
    run = RunPlan.model_validate(
        {
            "run": f"{case.model}-{case.threads}-{turn}",
            "group": 0,
            "scenario": "online",
            "parameters": {"queries": case.queries},
            "level": "model",
            "queries": case.queries,
        }
    )
    return WorkOrder(
        evaluation=EVALUATION,
        attempt=1,
        agent="bench",
        session=SessionPlan(session=case.model, agent="bench", batch_size=1, runs=(run,)),
        subject=Subject(
            model=ModelManifest.model_validate(model),
            dataset=DatasetManifest.model_validate(dataset),
            framework="onnxruntime",
            options={"threads": case.threads},
        ),
        runs=(run.run,),
    )


class Noting:
    """The bus as a sink, noting the latencies that pass."""

    def __init__(self, sink: BusSink) -> None:
        self._sink = sink
        self.latencies: list[np.ndarray] = []

    @property
    def is_full(self) -> bool:
        """Pass on."""
        return self._sink.is_full

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Note and pass on."""
        self.latencies.extend(latencies_of(fact))
        return await self._sink.put_batch(fact, id=id, cause=cause)

    async def settle(self, cause: str) -> DroppedBatches:
        """Pass on."""
        return await self._sink.settle(cause)

    def drop_refused(self, cause: str) -> None:
        """Pass on."""
        self._sink.drop_refused(cause)

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Keep outcomes to oneself: the collector would look for their evaluation."""


def latencies_of(fact: Batch) -> list[np.ndarray]:
    """Return the latencies in a batch, ns, if it has some."""
    if not isinstance(fact, QueriesAnswered):
        return []
    columns = columns_of(fact)
    return [columns["ended_ns"] - columns["issued_ns"]]


async def taken_live(
    worker: WorkerProcess, sink: BusSink, order: WorkOrder, interval_s: float
) -> list[np.ndarray]:
    """Do a turn as an agent does it, which takes batches every `interval_s`; return latencies."""
    noting = Noting(sink)
    worker.taking = BatchTaking(interval_s)
    await Execution(OutcomePublisher(order, noting), worker, MANIFESTS, 60.0).carry_out()
    return noting.latencies


async def taken_apart(worker: WorkerProcess, order: WorkOrder) -> list[np.ndarray]:
    """Do a turn and look at its batches only afterwards; return its latencies."""
    await worker.send(PerformOrder(order, MANIFESTS))
    while (message := await worker.receive()) is not None and not isinstance(message, OrderDone):
        pass
    latencies: list[np.ndarray] = []
    while facts := list(worker.batches()):
        latencies.extend(latency for fact in facts for latency in latencies_of(fact))
    return latencies


async def turns_of(servers: Servers, case: Case, turns: int) -> list[dict[str, Figures]]:
    """Return the figures of each turn by mode; the first turn, which warms, is left out."""
    limits = WorkerLimits(servers.folder / "bench", **LIMITS)
    worker = await WorkerProcess.start(case.model, limits)
    measured: list[dict[str, Figures]] = []
    try:
        numbers = range(len(MODES) * (turns + 1))
        await start_runs(servers, (order_of(case, number).runs[0] for number in numbers))
        async with connect(servers.settings("agent"), "agent") as bus:
            sink = BusSink(bus)
            for turn in range(turns + 1):
                measured.append({})
                for mode in MODES[:: -1 if turn % 2 else 1]:
                    order = order_of(case, len(MODES) * turn + MODES.index(mode))
                    interval_s = LIVE_INTERVAL_S if mode == "live" else 0.0
                    latencies = np.concatenate(
                        await taken_apart(worker, order)
                        if mode == "apart"
                        else await taken_live(worker, sink, order, interval_s)
                    )
                    p50, p90 = np.percentile(latencies, (50, 90))
                    measured[-1][mode] = float(p50), float(p90), 1e9 / float(np.mean(latencies))
                    await asyncio.sleep(1.0)  # the collector is done before the next begins
    finally:
        await worker.close()
    return measured[1:]


def printed(case: Case, turns: list[dict[str, Figures]]) -> float:
    """Print the lines of a case; return how far *live* is from *apart*, as a ratio's distance."""
    print(f"{case.model}, threads {case.threads}, {case.queries} queries a turn")
    worst = 0.0
    for mode in MODES:
        p50, p90, rate_hz = (median(turn[mode][n] for turn in turns) for n in range(3))
        row = f"  {mode:10}{p50 / 1e3:11,.1f}{p90 / 1e3:11,.1f}{rate_hz:10,.1f}"
        for number in (0, 1):
            ratios = sorted(turn[mode][number] / turn["apart"][number] for turn in turns)
            row += f"   {median(ratios):6.3f} ({ratios[0]:.3f} … {ratios[-1]:.3f})"
            if mode == "live":
                worst = max(worst, median(ratios) - 1)
        print(row, flush=True)
    return worst


def measure(turns: int) -> int:
    """Measure every case; return 1 where the real model is disturbed."""
    print(
        f"medians of {turns} turns, load {os.getloadavg()[0]:.1f}; ratios to apart, least and most"
    )
    print(f"  {'':10}{'p50, us':>11}{'p90, us':>11}{'rate/s':>10}   {'p50':^22}   {'p90':^22}")
    with open_world("") as world:
        moved = [printed(case, uvloop.run(turns_of(world.servers, case, turns))) for case in CASES]
    is_kept = claim(
        "services beside a live run move it by",
        max(moved[:2]) * 100,
        most=BOUND * 100,
        unit="%",
        peer="the same run apart",
    )
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    print(f"wanted: {CASES[0].model} live within {BOUND:.0%}: {'yes' if is_kept else 'no'}")
    return int(not is_kept)


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--keep", action="store_true", help="write results/observing.txt")
    options = parser.parse_args()
    with keeping("observing", is_wanted=options.keep):
        return measure(options.turns)


if __name__ == "__main__":
    sys.exit(main())
