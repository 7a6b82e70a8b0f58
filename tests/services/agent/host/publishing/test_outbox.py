"""The bus as a sink: outcomes behind their batches, and batches that find no room."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NotProvisioned
from mlscope.bus.streams import STREAMS
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.tracing.batches import Attempt, query_batch, trace_batch
from schemas.batch import Batch, QueriesAnswered, TraceCaptured
from schemas.run import RunFailed, RunReady
from schemas.subjects import facts_of
from services.agent.host.publishing.outbox import BusSink

A, B = "cause-a", "cause-b"
READY = RunReady(evaluation="e1", run="r0", attempt=1, agent="a1")


def traces(sequence: int, run: str = "r0") -> Batch:
    row = (sequence, -1, 2, 0, 1, 1, 1, 0, 0, b"")
    return trace_batch(Attempt("e1", run, 1, "a1"), sequence, [row], {"query": 0})


def queries(sequence: int, run: str = "r0") -> Batch:
    row = (sequence, 0, 1, -1, 1, 1, 2, 1, 0, "")
    return query_batch(Attempt("e1", run, 1, "a1"), sequence, [row])


@pytest.fixture
async def full() -> AsyncIterator[Bus]:
    """Open a bus whose stream of traces has room for nothing."""
    streams = tuple(replace(s, max_bytes=1) if s.name == "TRACES" else s for s in STREAMS)
    async with connect(MemoryServer(streams=streams), "agent") as bus:
        yield bus


async def until_full(sink: BusSink) -> None:
    for _ in range(2000):
        if sink.is_full:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it is not full")


async def test_a_fact_follows_the_batches_of_its_cause() -> None:
    server = MemoryServer()
    async with connect(server, "agent", patience_s=0.01) as bus:
        sink = BusSink(bus)
        server.stop()
        for sequence in range(5):
            assert await sink.put_batch(traces(sequence), id=f"t{sequence}", cause=A)
        putting = asyncio.create_task(sink.put(READY, id="ready", cause=A))
        await asyncio.sleep(0.1)
        assert (sink.pending, sink.is_full, putting.done()) == (5, False, False)
        server.start()
        await putting
        assert len(await bus.read(facts_of(TraceCaptured))) == 5
        assert (await sink.settle(A)).counts == {}


async def test_a_full_stream_holds_up_its_cause_alone(full: Bus) -> None:
    sink = BusSink(full)
    for sequence in range(16):
        await sink.put_batch(traces(sequence), id=f"t{sequence}", cause=A)
    blocked = asyncio.create_task(sink.put_batch(traces(16), id="t16", cause=A))
    await until_full(sink)
    await sink.put_batch(queries(0, "r1"), id="q0", cause=B)
    await sink.put(READY, id="ready", cause=B)
    assert len(await full.read(facts_of(QueriesAnswered))) == 1
    assert (blocked.done(), sink.pending) == (False, 16)
    sink.drop_refused(A)
    assert await blocked is False
    await sink.close()


async def test_what_is_let_go_is_counted_and_no_more_is_taken(full: Bus) -> None:
    sink = BusSink(full)
    for sequence in range(3):
        await sink.put_batch(traces(sequence), id=f"t{sequence}", cause=A)
    await sink.put_batch(queries(0), id="q0", cause=A)
    await until_full(sink)
    sink.drop_refused(A)
    assert not await sink.put_batch(queries(1), id="q1", cause=A)
    dropped = await sink.settle(A)
    assert dict(dropped.counts) == {"trace_batches": 3, "spans": 3}
    assert dropped.reason == "the stream is full"
    assert (sink.is_full, sink.pending) == (False, 0)
    assert len(await full.read(facts_of(QueriesAnswered))) == 1


async def test_a_server_that_is_away_makes_nobody_give_up() -> None:
    server = MemoryServer()
    async with connect(server, "agent", patience_s=0.01) as bus:
        sink = BusSink(bus)
        server.stop()
        await sink.put_batch(traces(0), id="t0", cause=A)
        sink.drop_refused(A)
        settling = asyncio.create_task(sink.settle(A))
        await asyncio.sleep(0.2)
        assert not settling.done()
        server.start()
        assert (await settling).counts == {}
        assert len(await bus.read(facts_of(TraceCaptured))) == 1


async def test_what_can_never_be_stored_is_raised_and_counted() -> None:
    async with connect(MemoryServer(streams=(), durables=()), "agent") as bus:
        sink = BusSink(bus)
        await sink.put_batch(traces(0), id="t0", cause=A)
        await asyncio.sleep(0.05)
        with pytest.raises(NotProvisioned):
            await sink.put_batch(traces(1), id="t1", cause=A)
        dropped = await sink.settle(A)
    assert dict(dropped.counts) == {"trace_batches": 1, "spans": 1}
    assert "mlscope provision" in dropped.reason


async def test_closing_gives_up_at_once(full: Bus) -> None:
    sink = BusSink(full)
    await sink.put_batch(traces(0), id="t0", cause=A)
    await until_full(sink)
    await sink.close()
    assert (sink.pending, sink.is_full) == (0, False)


async def test_each_failed_run_is_one_line_of_the_log_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = RunFailed(
        evaluation="e1",
        run="r0",
        attempt=2,
        agent="a1",
        error="open",
        message=f"{'x' * 475} https://ann:secret@host/m.onnx {'y' * 9999}",
    )
    async with connect(MemoryServer(), "agent") as bus:
        sink = BusSink(bus)
        await sink.put(failed, id="f1", cause=A)
        await sink.put(READY, id="f2", cause=A)
    (line,) = caplog.records
    fields = vars(line)
    assert (line.levelname, line.getMessage()) == ("WARNING", "a run failed")
    names = ("evaluation", "run", "attempt", "agent")
    assert [fields[name] for name in names] == ["e1", "r0", 2, "a1"]
    assert fields["cause"].startswith("open: xxx")
    assert "sec" not in fields["cause"]
    assert len(fields["cause"]) == 500
