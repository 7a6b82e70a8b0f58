"""Orders while a stream is full and nobody makes room: what must end, ends all the same."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.batch import TraceCaptured
from schemas.message import Fact
from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed
from schemas.subjects import facts_of
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outbox import BusSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.link.ring import RUNNING
from tests.services.agent.builders import (
    MANIFESTS,
    SLEEPY,
    a_run,
    a_sleepy_subject,
    an_order,
    limits,
)

pytestmark = pytest.mark.usefixtures("forked_workers")
TRACES_BYTES = 64 * 1024
IN_VAIN_S = 45.0
"""What has not ended by then never does."""

F = TypeVar("F", bound=Fact)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SLEEPY))
    monkeypatch.setattr("services.agent.host.execution._STOP_GRACE_S", 0.5)


@dataclass(frozen=True)
class Held:
    """An order under way whose traces find no room; `log` reads outcomes, `spans` traces."""

    worker: WorkerProcess
    execution: Execution
    doing: "asyncio.Task[bool]"
    log: Bus
    spans: Bus

    async def outcome(self, kind: type[F], run: str = "r0") -> F:
        """Wait until the log says how a run ended."""
        async with asyncio.timeout(IN_VAIN_S):
            async for recorded in self.log.follow(facts_of(kind)):
                fact = None if recorded is None else recorded.fact
                if isinstance(fact, kind) and fact.model_dump()["run"] == run:
                    return fact
        raise AssertionError("it follows for ever")

    async def is_useful(self) -> bool:
        """Wait for the order's end."""
        async with asyncio.timeout(IN_VAIN_S):
            return await self.doing

    async def until_worker_is_done(self) -> None:
        """Wait until nothing is left but to publish."""
        while self.worker.phase == RUNNING:
            assert not self.doing.done()
            await asyncio.sleep(0.05)

    async def stored(self, messages: int) -> list[TraceCaptured]:
        """Return so many of the stream's oldest messages; room is made as they are read."""
        found: list[TraceCaptured] = []
        async with aclosing(self.spans.deliveries("spans", batch=100)) as reading:
            while len(found) < messages:
                for delivery in await anext(reading):
                    assert isinstance(delivery.recorded.fact, TraceCaptured)
                    found.append(delivery.recorded.fact)
                    await delivery.ack()
                await self.spans.purge("mlscope.v1.trace.>", up_to=delivery.recorded.sequence)
        return found


@asynccontextmanager
async def held_back(
    order: WorkOrder, folder: Path, *, silence_s: float = 30.0
) -> AsyncIterator[Held]:
    """Carry out an order until the stream of traces refuses more."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(NatsServer(folder))

        def settings(name: str) -> Settings:
            seed = server.seed_files[name]
            return Settings(nats_url=server.url, nats_seed_file=seed, traces_max_bytes=TRACES_BYTES)

        await provision(settings("provisioner"))
        agent, log, spans = [
            await stack.enter_async_context(connect(settings(name), name))
            for name in ("agent", "scheduler", "collector")
        ]
        worker = await WorkerProcess.start("w", limits(folder / "workers"))
        stack.push_async_callback(worker.close)
        sink = BusSink(agent)
        stack.push_async_callback(sink.close)
        execution = Execution(OutcomePublisher(order, sink), worker, MANIFESTS, silence_s)
        doing = asyncio.create_task(execution.carry_out())
        try:
            while sink.pending < 16:
                assert not doing.done()
                await asyncio.sleep(0.02)
            yield Held(worker, execution, doing, log, spans)
        finally:
            doing.cancel()
            await asyncio.wait([doing])


def long_order(*runs: str, queries: int = 1_000_000) -> WorkOrder:
    """Return an order of runs that go on for ever."""
    plans = tuple(a_run(run, queries=queries, timeout_s=600.0) for run in runs or ("r0",))
    return an_order(a_sleepy_subject(predict_ms=0.05), plans)


async def stop(held: Held) -> None:
    await held.execution.stop("r0", "cancelled")


async def freeze(held: Held) -> None:
    os.kill(held.worker.pid, signal.SIGSTOP)


async def freeze_and_stop(held: Held) -> None:
    await freeze(held)
    await stop(held)


async def kill(held: Held) -> None:
    held.worker.kill()


@pytest.mark.parametrize(
    ("disturb", "error", "message", "useful"),
    [
        pytest.param(stop, "stopped", "cancelled", True, marks=pytest.mark.long),
        (freeze_and_stop, "stopped", "cancelled", False),
        pytest.param(
            *(freeze, "timeout", "one predict call, or a heartbeat, took longer than 1 s", False),
            marks=pytest.mark.long,
        ),
        (kill, "worker_died", "worker was killed by SIGKILL", False),
    ],
)
async def test_what_must_end_ends_without_what_finds_no_room(
    data_folder: Path,
    disturb: Callable[[Held], Awaitable[None]],
    error: str,
    message: str,
    useful: bool,
) -> None:
    silence_s = 1.0 if error == "timeout" else 30.0
    async with held_back(long_order(), data_folder, silence_s=silence_s) as held:
        await disturb(held)
        failed = await held.outcome(RunFailed)
        assert await held.is_useful() is useful
        tally = failed.tally
        stored = await held.stored(tally.trace_batches)
    assert (failed.error, failed.message.startswith(message)) == (error, True)
    assert sum(fact.count for fact in stored) == tally.spans
    assert len(stored) == tally.trace_batches > 0 < tally.dropped_batches
    note = f"{tally.dropped_batches} batches were dropped: the stream is full"
    assert failed.message.endswith(f"; {note}")


async def test_what_is_done_waits_for_room_as_long_as_it_takes(data_folder: Path) -> None:
    async with held_back(long_order(queries=8000), data_folder) as held:
        await held.until_worker_is_done()
        await asyncio.sleep(1.0)
        assert not held.doing.done()
        reading = asyncio.create_task(held.stored(sys.maxsize))
        completed = await held.outcome(RunCompleted)
        reading.cancel()
        assert await held.is_useful()
    assert (completed.tally.spans, completed.tally.dropped_batches) == (16_000, 0)
    assert completed.caveats == ()


async def test_what_is_done_and_then_stopped_is_said_with_what_is_missing(
    data_folder: Path,
) -> None:
    async with held_back(long_order(queries=8000), data_folder) as held:
        await held.until_worker_is_done()
        await stop(held)
        completed = await held.outcome(RunCompleted)
        assert await held.is_useful()
        stored = await held.stored(completed.tally.trace_batches)
    assert sum(fact.count for fact in stored) == completed.tally.spans < 16_000
    dropped = completed.tally.dropped_batches
    assert completed.caveats == (f"{dropped} batches were dropped: the stream is full",)


async def test_a_run_that_is_stopped_takes_no_other_along(data_folder: Path) -> None:
    """`r1` waits for its turn behind `r0`, which nobody stopped, for longer than the grace."""
    async with held_back(long_order("r0", "r1"), data_folder) as held:
        await held.execution.stop("r1", "cancelled")
        await asyncio.sleep(1.0)
        assert (held.worker.is_alive, held.doing.done()) == (True, False)
        await stop(held)
        assert await held.is_useful()
        failures = [await held.outcome(RunFailed, run) for run in ("r0", "r1")]
    assert [failed.error for failed in failures] == ["stopped", "stopped"]
