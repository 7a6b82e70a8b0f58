"""What publishing costs the measured: query p50 at level model with publishing on and off.

`python -m benchmarks.observing [--pairs 6]`

One worker with one opened model, one nats-server, one collector and one PostgreSQL, all on this
machine. Off: batches stay in the ring until the run is over. On: the agent takes them while it
runs, publishes them, and the collector copies them into the database. Off and on take turns
(A B A B …, every other pair turned round); a ratio is that of one pair. Wanted for
EfficientNet-Lite0: a median within 2 %. Beside it the tiny CNN, whose queries take some 30 us:
many more spans a second than a real model makes.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import uvloop
import yaml

from benchmarks.ingest import EVALUATION, Servers, open_world, start_runs
from mlscope.bus.nats import connect
from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, QueriesAnswered
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.message import Fact
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from services.agent.host.dropped_batches import DroppedBatches
from services.agent.host.execution import Execution
from services.agent.host.outbox import BusSink
from services.agent.host.outcome_publisher import OutcomePublisher
from services.agent.host.process import WorkerLimits, WorkerProcess
from services.agent.link.messages import OrderDone, PerformOrder

MANIFESTS = Path(__file__).parents[1] / "manifests"
BOUND = 0.02
LIMITS = {"ring_bytes": 64 << 20, "spool_bytes": 256 << 20}


@dataclass(frozen=True)
class Case:
    """A model with its dataset, threads, and queries in a turn."""

    model: str
    dataset: str
    threads: int
    queries: int


CASES = (
    Case("efficientnet_lite0", "photos", 1, 150),
    Case("tiny_cnn", "noise32", 1, 20_000),
)


def order_of(case: Case, turn: int) -> WorkOrder:
    """Return one turn as an order."""
    model = yaml.safe_load((MANIFESTS / f"models/{case.model}.yml").read_text())
    dataset = yaml.safe_load((MANIFESTS / f"datasets/{case.dataset}.yml").read_text())
    run = RunPlan.model_validate(
        {
            "run": f"{case.model}-{turn}",
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


async def published(worker: WorkerProcess, sink: BusSink, order: WorkOrder) -> float:
    """Do a turn as an agent does it; return its p50, ns."""
    noting = Noting(sink)
    await Execution(OutcomePublisher(order, noting), worker, MANIFESTS, 60.0).carry_out()
    return float(np.median(np.concatenate(noting.latencies)))


async def median_latency(worker: WorkerProcess, order: WorkOrder) -> float:
    """Do a turn and look at its batches only afterwards; return its p50, ns."""
    await worker.send(PerformOrder(order, MANIFESTS))
    while (message := await worker.receive()) is not None and not isinstance(message, OrderDone):
        pass
    latencies: list[np.ndarray] = []
    while facts := list(worker.batches()):
        latencies.extend(latency for fact in facts for latency in latencies_of(fact))
    return float(np.median(np.concatenate(latencies)))


async def compared(servers: Servers, case: Case, pairs: int) -> list[tuple[float, float]]:
    """Return (off, on) p50 of each pair, ns; the first pair, which warms, is left out."""
    limits = WorkerLimits(servers.folder / "bench", **LIMITS)
    worker = await WorkerProcess.start(case.model, limits)
    measured_pairs = []
    try:
        runs = (order_of(case, 2 * n + 1).runs[0] for n in range(pairs + 1))
        await start_runs(servers, runs)
        async with connect(servers.settings("agent"), "agent") as bus:
            sink = BusSink(bus)
            for pair in range(pairs + 1):
                off = _turn(lambda n: median_latency(worker, order_of(case, n)), 2 * pair)
                on = _turn(lambda n: published(worker, sink, order_of(case, n)), 2 * pair + 1)
                sides = [off, on] if pair % 2 else [on, off]
                first, second = await sides[0](), await sides[1]()
                measured_pairs.append((first, second) if pair % 2 else (second, first))
                await asyncio.sleep(1.0)  # the collector is done before the next begins
    finally:
        await worker.close()
    return measured_pairs[1:]


def _turn(
    measure: Callable[[int], Awaitable[float]], number: int
) -> Callable[[], Awaitable[float]]:
    return lambda: measure(number)


def printed(case: Case, pairs: list[tuple[float, float]]) -> float:
    """Print a case's line; return the ratio's distance from 1."""
    ratios = sorted(on / off for off, on in pairs)
    off, on = median(pair[0] for pair in pairs) / 1e3, median(pair[1] for pair in pairs) / 1e3
    ratio = median(ratios)
    spread = f"{ratios[0]:.3f} .. {ratios[-1]:.3f}"
    print(f"{case.model:20}{off:12,.1f}{on:12,.1f}{ratio:9.3f}   {spread}", flush=True)
    return abs(ratio - 1)


def main() -> int:
    """Print p50 off and on and their ratio; fail when the real model is disturbed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    options = parser.parse_args()
    with open_world("") as world:
        print("query p50, us; ratio on/off: median of pairs, least and most")
        print(f"{'':20}{'off':>12}{'on':>12}{'ratio':>9}")
        moved = [
            printed(case, uvloop.run(compared(world.servers, case, options.pairs)))
            for case in CASES
        ]
    print(f"wanted: {CASES[0].model} within {BOUND:.0%}: {'yes' if moved[0] <= BOUND else 'no'}")
    return int(moved[0] > BOUND)


if __name__ == "__main__":
    sys.exit(main())
