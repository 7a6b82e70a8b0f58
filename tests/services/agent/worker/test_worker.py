"""The worker process as its host hears it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.host.process import WorkerProcess
from services.agent.link.channel import framed
from services.agent.link.messages import (
    AttemptKey,
    CloseSession,
    FinishLoad,
    IssueQuery,
    LoadAwaited,
    OrderDone,
    PerformOrder,
    QueryAnswered,
    RunEnded,
    ToHost,
)
from services.agent.link.ring import IDLE, RUNNING
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order, limits

M = TypeVar("M", bound=ToHost)
RUN = AttemptKey("e1", "r0", 1)


class Worker:
    """A worker and its messages."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process

    async def order(self, order: WorkOrder) -> None:
        """Give an order."""
        await self.process.send(PerformOrder(order, MANIFESTS))

    async def next(self, kind: type[M]) -> M:
        """Wait for the next message, which is of this kind."""
        async with asyncio.timeout(60):
            message = await self.process.receive()
        assert isinstance(message, kind)
        return message

    async def completed(self) -> RunCompleted:
        """Wait for a good end."""
        outcome = (await self.next(RunEnded)).outcome
        assert isinstance(outcome, RunCompleted)
        return outcome

    async def query(self, index: int, **fields: Any) -> QueryAnswered:
        """Send a query and wait for its answer."""
        await self.process.send(
            IssueQuery(RUN, index, **{"samples": (0,), "received_ns": 1, **fields})
        )
        return await self.next(QueryAnswered)


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    """Lend a worker."""
    process = await WorkerProcess.start("w", limits(tmp_path))
    yield Worker(process)
    await process.close()


async def test_a_session_is_opened_once_for_all_its_orders(worker: Worker) -> None:
    loads = []
    for run in ("r0", "r1"):
        await worker.order(an_order(runs=(a_run(run),)))
        loads.append((await worker.completed()).conditions.load_ns)
        await worker.next(OrderDone)
    assert loads[0] == loads[1] > 0
    assert worker.process.phase == IDLE


async def test_what_can_t_be_opened_is_tried_anew_with_the_next_order(worker: Worker) -> None:
    await worker.order(an_order(a_subject(framework="caffe")))
    assert isinstance((await worker.next(RunEnded)).outcome, RunFailed)
    await worker.next(OrderDone)
    await worker.order(an_order(attempt=2))
    assert (await worker.completed()).attempt == 2


async def test_queries_are_answered_while_a_remote_run_is_open(worker: Worker) -> None:
    early = await worker.query(0)
    assert (early.status, early.error) == (1, "no open run has this id")
    await worker.order(an_order(runs=(a_run(pacing="remote"),)))
    assert await worker.next(LoadAwaited) == LoadAwaited("r0")
    assert worker.process.phase == RUNNING
    assert (await worker.query(1)).status == 0
    unknown = await worker.query(2, samples=(1 << 20,))
    assert unknown.error.startswith("samples are numbered 0 to ")
    await worker.process.send(FinishLoad(RUN))
    assert (await worker.completed()).blocks[0].queries == 1
    await worker.next(OrderDone)


async def test_a_torn_message_ends_the_worker_with_its_last_words(worker: Worker) -> None:
    worker.process._channel._writer.write(framed(b"torn"))
    assert await worker.process.receive() is None
    death = await worker.process.death()
    assert death.how == "exited with 1"
    assert "MalformedMessage" in death.last_words


async def test_it_ends_when_told_to(worker: Worker) -> None:
    await worker.process.send(CloseSession())
    assert (await worker.process.death()).how == "exited with 0"
