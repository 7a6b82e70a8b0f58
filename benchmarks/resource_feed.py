"""What the feed of a run's resources costs: `python -m benchmarks.resource_feed [--turns 6]`.

One worker with EfficientNet-Lite0 open, one nats-server, one collector and one PostgreSQL, all on
this machine. Turns without (A) and with (B) the agent's feed of CPU, GPU use and power, A B A B; a
ratio is that of a pair, B over A. Wanted: a median ratio of the median latency within 2 %, decided
only where its 95 % interval says so: on a busy machine pairs differ by far more. Beside it the CPU
time of one reading.
"""

import argparse
import asyncio
import os
import sys
import time
from statistics import median

import numpy as np
import uvloop

from benchmarks.ingest import Servers, open_world, start_runs
from benchmarks.observing import CASES, LIMITS, MANIFESTS, Case, Noting, order_of
from benchmarks.timing import keeping
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from schemas.plan import WorkOrder
from services.agent.host.batch_taking import BatchTaking
from services.agent.host.execution import Execution
from services.agent.host.process import LIVE_INTERVAL_S, WorkerLimits, WorkerProcess
from services.agent.host.publishing.outbox import BusSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.host.resource_feed import PERIOD_S, meter_of, publishing_resources
from services.agent.machine.resource_use import ResourceMeter

BOUND = 0.02
READINGS = 200


async def latency_ns(bus: Bus, worker: WorkerProcess, order: WorkOrder, *, has_feed: bool) -> float:
    """Return the median latency of the queries of an order, done as an agent does it."""
    noting = Noting(BusSink(bus))
    worker.taking = BatchTaking(LIVE_INTERVAL_S)
    execution = Execution(OutcomePublisher(order, noting), worker, MANIFESTS, 60.0)
    if has_feed:
        async with publishing_resources(bus, execution, meter_of(order, worker.pid)):
            await execution.carry_out()
    else:
        await execution.carry_out()
    return float(np.median(np.concatenate(noting.latencies)))


async def pairs_of(servers: Servers, case: Case, turns: int) -> list[tuple[float, float]]:
    """Return the latencies of each pair without and with; the first pair, which warms, is left out.

    They are medians in ns, on `servers`, of `turns` pairs of a `case`.
    """
    worker = await WorkerProcess.start(case.model, WorkerLimits(servers.folder / "bench", **LIMITS))
    pairs: list[tuple[float, float]] = []
    try:
        orders = [order_of(case, number) for number in range(2 * (turns + 1))]
        await start_runs(servers, (order.runs[0] for order in orders))
        async with connect(servers.settings("agent"), "agent") as bus:
            for turn in range(turns + 1):
                without_feed = await latency_ns(bus, worker, orders[2 * turn], has_feed=False)
                with_feed = await latency_ns(bus, worker, orders[2 * turn + 1], has_feed=True)
                pairs.append((without_feed, with_feed))
                await asyncio.sleep(0.5)
    finally:
        await worker.close()
    return pairs[1:]


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--keep", action="store_true", help="write results/resource_feed.txt")
    options = parser.parse_args()
    with keeping("resource_feed", is_wanted=options.keep), open_world("") as world:
        pairs = uvloop.run(pairs_of(world.servers, CASES[0], options.turns))
        for without_feed, with_feed in pairs:
            times = f"A {without_feed / 1e6:8.2f} ms   B {with_feed / 1e6:8.2f} ms"
            print(f"  {times}   {with_feed / without_feed:.3f}")
        low, ratio, high = interval_of(
            [with_feed / without_feed for without_feed, with_feed in pairs]
        )
        print(
            f"load {os.getloadavg()[0]:.1f}; median ratio {ratio:.3f}, "
            f"95 %: {low:.3f} to {high:.3f}"
        )
        verdict = "yes" if high - 1 <= BOUND else "no" if low - 1 > BOUND else "not decided"
        print(f"wanted: within {BOUND:.0%}: {verdict}")
        print(f"a reading takes the agent {reading_ms():.2f} ms of CPU, once in {PERIOD_S:g} s")
    return int(verdict == "no")


def interval_of(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median of ratios within its 95 % interval, by bootstrap."""
    drawn = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), median(ratios), float(high)


def reading_ms() -> float:
    """Return the CPU time of a reading of this process and its children, in ms."""
    meter = ResourceMeter(os.getpid(), 0)
    began_s = time.process_time()
    for _ in range(READINGS):
        meter.read()
    spent_s = time.process_time() - began_s
    meter.close()
    return 1000 * spent_s / READINGS


if __name__ == "__main__":
    sys.exit(main())
