"""The worker process as its agent hears it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.codec import decode_body, encode_body
from schemas.plan import WorkOrder
from schemas.run import RunCompleted
from services.agent.allowances import NO_MORE
from services.agent.channel import Words
from services.agent.process import WorkerProcess, words_of_run
from services.agent.ring import IDLE, RUNNING
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order, limits


class Worker:
    """A worker and what it says."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process

    async def order(self, order: WorkOrder) -> None:
        """Give an order."""
        words = {"kind": "order", "order": encode_body(order), "allowed": NO_MORE.words()}
        await self.process.send({**words, "manifests_folder": str(MANIFESTS), "brought": {}})

    async def heard(self, kind: str) -> Words:
        """Wait for the next word, which is of this kind."""
        async with asyncio.timeout(60):
            words = await self.process.receive()
        assert words is not None
        assert words["kind"] == kind
        return words

    async def completed(self) -> RunCompleted:
        """Wait for a good end."""
        return decode_body(RunCompleted, (await self.heard("ended"))["body"])

    async def query(self, index: int, run: str = "r0", **more: Any) -> Words:
        """Send a query and wait for its answer."""
        body = {"query": index, "samples": np.array([0], "<i4").tobytes(), **more}
        await self.process.send({**words_of_run("query", "e1", run, 1), **body})
        return await self.heard("answer")


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
        await worker.heard("idle")
    assert loads[0] == loads[1] > 0
    assert worker.process.phase == IDLE


async def test_what_can_t_be_opened_is_tried_anew_with_the_next_order(worker: Worker) -> None:
    await worker.order(an_order(a_subject(framework="caffe")))
    assert (await worker.heard("ended"))["happened"] == "failed"
    await worker.heard("idle")
    await worker.order(an_order(attempt=2))
    assert (await worker.completed()).attempt == 2


async def test_queries_are_answered_while_a_remote_run_is_open(worker: Worker) -> None:
    early = await worker.query(0)
    assert (early["status"], early["error"]) == (1, "no such run takes queries")
    await worker.order(an_order(runs=(a_run(pacing="remote"),)))
    await worker.heard("ready")
    assert worker.process.phase == RUNNING
    assert (await worker.query(1))["status"] == 0
    torn = await worker.query(2, samples=b"odd")
    assert torn["error"].startswith("malformed query: ")
    await worker.process.send(words_of_run("finish", "e1", "r0", 1))
    assert (await worker.completed()).blocks[0].queries == 1
    await worker.heard("idle")


async def test_a_bug_in_an_order_ends_the_worker_with_its_last_words(worker: Worker) -> None:
    await worker.process.send({"kind": "order", "order": b"torn", "manifests_folder": "."})
    assert await worker.process.receive() is None
    death = await worker.process.death()
    assert death.how == "exited with 1"
    assert "MalformedMessage" in death.last_words


async def test_it_ends_when_told_to(worker: Worker) -> None:
    await worker.process.send({"kind": "close"})
    assert (await worker.process.death()).how == "exited with 0"
