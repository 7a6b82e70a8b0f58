"""Remote pacing: how late the scheduler's issuer is, and what NATS adds to a null answer.

Poisson, 1,000 queries/s, stamped after the socket write returns; the agent is a null responder in
a process of its own. Floor in the same run: the same schedule from a process that sends nothing.
Claim: p99 <= 250 us, the median of the repeats, and never early.
"""

import asyncio
import multiprocessing
import sys
import time
from statistics import median

import msgpack
import numpy as np
from numpy.typing import NDArray

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus import nats
from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.records import ReceivedCommand
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.load import Load
from mlscope.load.pacer import PacerProcess
from mlscope.settings import Settings
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest
from schemas.plan import SessionPlan, Subject, WorkOrder
from schemas.subjects import agent_command
from services.scheduler.remote_load.continuation import Continuation
from services.scheduler.remote_load.issued import LoadRecord
from services.scheduler.remote_load.processes import BrokerAddress, issue_load

RATE_HZ, QUERIES, REPEATS, AGENT = 1000.0, 5000, 3, "null"
MOST_P99_US = 250.0


def responder(url: str, seed_file: str, authority_file: str = "") -> None:
    """Answer every query at once, for ever; `authority_file` is what a broker with TLS needs."""

    async def answer(command: ReceivedCommand) -> bytes:
        query = msgpack.unpackb(command.body)["query"]
        return bytes(msgpack.packb({"query": query, "status": 0, "service_ns": 0, "error": ""}))

    async def serve() -> None:
        environ = {
            "MLSCOPE_NATS_URL": url,
            "MLSCOPE_NATS_SEED_FILE": seed_file,
            "MLSCOPE_TLS_AUTHORITY_FILE": authority_file,
        }
        async with nats.connect(Settings.read(environ), "agent") as bus:
            await bus.answer(agent_command(AGENT, "query"), answer, queue=None)
            await asyncio.Event().wait()

    asyncio.run(serve())


def an_order() -> WorkOrder:
    """Return an order to the null agent; only its names matter here."""
    model = ModelManifest(
        name="null",
        version="1.0.0",
        framework=FrameworkNeed(name="null"),
        inputs=(),
        outputs=(),
        model=Assets(),
    )
    return WorkOrder(
        evaluation="bench",
        attempt=1,
        agent=AGENT,
        session=SessionPlan(session="s", agent=AGENT, batch_size=1, runs=()),
        subject=Subject(model=model, dataset=DatasetManifest(name="null"), framework="null"),
        runs=("r",),
    )


def shown(name: str, late_ns: NDArray[np.int64]) -> str:
    """Return a line of percentiles in microseconds."""
    p50, p99, p999 = np.percentile(late_ns, [50, 99, 99.9], method="higher") / 1e3
    early = int(np.count_nonzero(late_ns < 0))
    return f"{name:22s} p50 {p50:8.1f}  p99 {p99:8.1f}  p99.9 {p999:8.1f} us   early {early}"


def claimed(lates_ns: list[NDArray[np.int64]]) -> int:
    """Print whether the claim holds for these repeats; return 1 where it was missed."""
    p99_us = median(
        float(np.percentile(late_ns, 99, method="higher")) / 1e3 for late_ns in lates_ns
    )
    is_early = any(int(late_ns.min()) < 0 for late_ns in lates_ns)
    holds = p99_us <= MOST_P99_US and not is_early
    claim("issued late, remote, p99", p99_us, most=MOST_P99_US, unit="us")
    text = f"p99 <= {MOST_P99_US:g} us, never early"
    print(f"claim ({text}): {'holds' if holds else 'MISSED'}, median p99 {p99_us:.1f} us")
    return 0 if holds else 1


def paced_only(due_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how late the same schedule is in a process that sends nothing."""
    with PacerProcess(due_ns) as pacer:
        origin_ns = pacer.start()
        issued_ns = np.array([stamp for _, stamp in pacer], np.int64)
    return issued_ns - due_ns - origin_ns


def main() -> int:
    """Alternate floor and issuer; print every repeat; return 1 where the claim was missed."""
    due_ns = poisson_due_ns(RATE_HZ, QUERIES, 1)
    samples = np.zeros((QUERIES, 1), np.int32)
    load = Load("poisson", due_ns, samples, 0, "remote")
    lates_ns: list[NDArray[np.int64]] = []
    with new_folder() as folder, NatsServer(folder) as server:
        agent = multiprocessing.get_context("spawn").Process(
            target=responder, args=(server.url, str(server.seed_files["agent"])), daemon=True
        )
        agent.start()
        where = BrokerAddress(server.url, server.seeds["scheduler"], inbox_prefix("scheduler"))
        time.sleep(2.0)
        for _ in range(REPEATS):
            print(shown("floor: nothing sent", paced_only(due_ns)))
            issued: LoadRecord = asyncio.run(
                issue_load(where, an_order(), "r", Continuation.once(load), 10.0)
            )
            lates_ns.append(issued.issued_ns - issued.due_ns)
            print(shown("issued to a null agent", lates_ns[-1]))
            print(shown("  due to answer", issued.ended_ns - issued.due_ns))
        agent.terminate()
    return claimed(lates_ns)


if __name__ == "__main__":
    sys.exit(main())
