"""I/O: has a remote load issued by `issuer`'s two processes and makes query batches of it."""

import asyncio
import secrets
import struct
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from mlscope.load.load import Load
from schemas.batch import QueriesAnswered
from schemas.plan import WorkOrder
from schemas.subjects import agent_command
from services.scheduler.issuer import LOST, READY

SOURCE = "scheduler"
"""Who says remote queries: in a batch's place for the agent."""

_ROWS_A_BATCH = 5000
_LEAD_NS = 20_000_000


class IssuerFailed(Exception):
    """An issuing process ended before its load was through."""


@dataclass(frozen=True, slots=True)
class Where:
    """How an issuing process reaches the broker; `seed` never leaves its standard input."""

    url: str
    seed: str | None
    inbox_prefix: str


@dataclass(frozen=True, eq=False)
class IssuedLoad:
    """What became of each query, in order: int64 [queries], ns from `origin_ns`; -1 is never."""

    origin_ns: int
    due_ns: NDArray[np.int64]
    issued_ns: NDArray[np.int64]
    ended_ns: NDArray[np.int64]
    service_ns: NDArray[np.int64]
    status: NDArray[np.int8]
    errors: dict[int, str]

    @property
    def queries(self) -> int:
        """How many queries were due."""
        return len(self.due_ns)

    @property
    def failed(self) -> int:
        """How many were not answered well."""
        return int(np.count_nonzero(self.status))


async def issue_load(
    where: Where, order: WorkOrder, run: str, load: Load, lost_after_s: float
) -> IssuedLoad:
    """Issue an open loop to the order's agent; a query without answer after `lost_after_s` is lost.

    Raises IssuerFailed when a process or its connection breaks.
    """
    assert load.due_ns is not None, "only open loops are issued remotely"
    spec = _spec(where, order, run, load)
    async with _process("read", spec) as reader, _process("send", spec) as sender:
        origin_ns = time.monotonic_ns() + _LEAD_NS
        _input(sender).write(struct.pack("<q", origin_ns))
        issued = msgpack.unpackb(await _message(sender))
        issued_ns = np.frombuffer(issued["issued_ns"], "<i8").astype(np.int64)
        if len(issued_ns) < load.queries:
            raise IssuerFailed(f"{len(issued_ns)} of {load.queries} queries were issued")
        answers = await _answers(reader, lost_after_s)
    return _issued_load(origin_ns, load.due_ns, issued_ns, answers)


async def _answers(reader: asyncio.subprocess.Process, lost_after_s: float) -> dict[str, Any]:
    """Wait for the last answer, but not beyond `lost_after_s`; then take what there is."""
    waiting = asyncio.ensure_future(_message(reader))
    await asyncio.wait([waiting], timeout=lost_after_s)
    if not waiting.done():
        _input(reader).close()
    return dict(msgpack.unpackb(await waiting, strict_map_key=False))


def _spec(where: Where, order: WorkOrder, run: str, load: Load) -> dict[str, Any]:
    assert load.due_ns is not None
    return {
        "url": where.url.split(",")[0],
        "seed": where.seed,
        "inbox": f"{where.inbox_prefix}.{secrets.token_hex(8)}",
        "subject": agent_command(order.agent, "query"),
        "evaluation": order.evaluation,
        "run": run,
        "attempt": order.attempt,
        "block": 0,
        "queries": load.queries,
        "due_ns": load.due_ns.astype("<i8").tobytes(),
        "samples": load.sample_indices.astype("<i4").tobytes(),
    }


@asynccontextmanager
async def _process(mode: str, spec: dict[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `issuer` in a mode until the block ends; it is ready when the block begins."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.scheduler.issuer",
        mode,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        packed: bytes = msgpack.packb(spec)
        _input(process).write(struct.pack("<I", len(packed)) + packed)
        if await _message(process) != READY:
            raise IssuerFailed(f"the {mode}er did not get ready")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _input(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


async def _message(process: asyncio.subprocess.Process) -> bytes:
    """Return the process's next message. Raises IssuerFailed when it ends instead."""
    assert process.stdout is not None
    try:
        size = struct.unpack("<I", await process.stdout.readexactly(4))[0]
        return await process.stdout.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise IssuerFailed(f"an issuing process ended with {await process.wait()}") from error


def _issued_load(
    origin_ns: int,
    due_ns: NDArray[np.int64],
    issued_ns: NDArray[np.int64],
    answers: dict[str, Any],
) -> IssuedLoad:
    """Put every answer beside its query; a query without one is lost."""
    query = np.frombuffer(answers["query"], "<i4")
    ended_ns, service_ns = np.full((2, len(due_ns)), -1, np.int64)
    status = np.full(len(due_ns), LOST, np.int8)
    ended_ns[query] = np.frombuffer(answers["ended_ns"], "<i8") - origin_ns
    service_ns[query] = np.frombuffer(answers["service_ns"], "<i8")
    status[query] = np.frombuffer(answers["status"], "<i1")
    errors = {int(q): str(text) for q, text in answers["errors"].items()}
    errors |= {int(q): "no answer" for q in np.flatnonzero(status == LOST) if int(q) not in errors}
    issued_ns = issued_ns - origin_ns
    return IssuedLoad(origin_ns, due_ns, issued_ns, ended_ns, service_ns, status, errors)


def batches_of(order: WorkOrder, run: str, load: IssuedLoad) -> Iterator[QueriesAnswered]:
    """Yield the load's query batches; a lost query has no end, its `ended_ns` is -1."""
    size = np.full(load.queries, order.session.batch_size, "<i4")
    for sequence, first in enumerate(range(0, load.queries, _ROWS_A_BATCH)):
        rows = slice(first, min(first + _ROWS_A_BATCH, load.queries))
        part = _part(load, rows)
        yield QueriesAnswered(
            evaluation=order.evaluation,
            run=run,
            attempt=order.attempt,
            agent=SOURCE,
            sequence=sequence,
            count=part.queries,
            query=np.arange(rows.start, rows.stop).astype("<i4").tobytes(),
            block=np.zeros(part.queries, "<i2").tobytes(),
            size=size[rows].tobytes(),
            due_ns=part.due_ns.astype("<i8").tobytes(),
            issued_ns=part.issued_ns.astype("<i8").tobytes(),
            started_ns=np.full(part.queries, -1, "<i8").tobytes(),
            ended_ns=part.ended_ns.astype("<i8").tobytes(),
            service_ns=part.service_ns.astype("<i8").tobytes(),
            status=part.status.astype("<i1").tobytes(),
            error_rows=tuple(q - first for q in sorted(load.errors) if first <= q < rows.stop),
            error_texts=tuple(
                load.errors[q] for q in sorted(load.errors) if first <= q < rows.stop
            ),
        )


def _part(load: IssuedLoad, rows: slice) -> IssuedLoad:
    return replace(
        load,
        due_ns=load.due_ns[rows],
        issued_ns=load.issued_ns[rows],
        ended_ns=load.ended_ns[rows],
        service_ns=load.service_ns[rows],
        status=load.status[rows],
    )
