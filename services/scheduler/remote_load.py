"""I/O: has a remote load issued by `issuer`'s two processes and makes query batches of it."""

import asyncio
import mmap
import os
import secrets
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
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

Queries = NDArray[np.int32]
"""Numbers of queries."""

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
    """What became of each query, in order: int64 [queries], ns from `origin_ns`; -1 is not yet."""

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


Hear = Callable[[IssuedLoad, Queries], Awaitable[None]]
"""Takes queries that are over, as they come: their numbers, whose rows are final by then."""


async def unheard(_: IssuedLoad, __: Queries) -> None:
    """Take no notice."""


async def issue_load(
    where: Where,
    order: WorkOrder,
    run: str,
    load: Load,
    lost_after_s: float,
    *,
    hear: Hear = unheard,
) -> IssuedLoad:
    """Issue an open loop to the order's agent, and have `hear` told of each query once.

    A query without answer `lost_after_s` after the last answer or issue is lost.
    Raises IssuerFailed when a process or its connection breaks.
    """
    assert load.due_ns is not None, "only open loops are issued remotely"
    with _shared_stamps(load.queries) as (stamps_fd, stamps):
        spec = _spec(where, order, run, load) | {"stamps_fd": stamps_fd}
        async with (
            _process("read", spec) as reader,
            _process("send", spec, stamps_fd) as sender,
        ):
            origin_ns = time.monotonic_ns() + _LEAD_NS
            _input(sender).write(struct.pack("<q", origin_ns))
            progress = _Progress(origin_ns, load.due_ns, stamps, hear)
            sending = asyncio.ensure_future(_message(sender))
            try:
                await progress.follow(reader, sending, lost_after_s)
            finally:
                sending.cancel()
        return progress.load


class _Progress:
    """A load while it is issued: answers are put beside their queries as they come."""

    def __init__(
        self,
        origin_ns: int,
        due_ns: NDArray[np.int64],
        stamps: NDArray[np.int64],
        hear: Hear,
    ) -> None:
        queries = len(due_ns)
        issued_ns, ended_ns, service_ns = np.full((3, queries), -1, np.int64)
        status = np.full(queries, LOST, np.int8)
        self.load = IssuedLoad(origin_ns, due_ns, issued_ns, ended_ns, service_ns, status, {})
        self._stamps = stamps
        self._hear = hear
        self._unheard = np.ones(queries, np.bool_)
        self._answered = np.zeros(queries, np.bool_)

    async def follow(
        self,
        reader: asyncio.subprocess.Process,
        sending: "asyncio.Future[bytes]",
        lost_after_s: float,
    ) -> None:
        """Take in answers until all are there, or no more are to be hoped for."""
        answer = asyncio.ensure_future(_message(reader))
        try:
            while True:
                waiting = {answer} if sending.done() else {answer, sending}
                limit_s = lost_after_s if sending.done() else None
                done, _ = await asyncio.wait(
                    waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
                )
                if sending in done:
                    self._check_sent(sending)
                if answer in done:
                    columns = _columns_of(answer.result())
                    if not columns:
                        self._check_answered()
                        break
                    await self._take(columns)
                    answer = asyncio.ensure_future(_message(reader))
                elif not done:
                    break
            await self._give_up(sending)
        finally:
            answer.cancel()

    def _check_sent(self, sending: "asyncio.Future[bytes]") -> None:
        _columns_of(sending.result())
        issued = int(np.count_nonzero(self._stamps))
        if issued < self.load.queries:
            raise IssuerFailed(f"{issued} of {self.load.queries} queries were issued")

    def _check_answered(self) -> None:
        missing = int(np.count_nonzero(~self._answered))
        if missing:
            raise IssuerFailed(f"the reader ended before {missing} answers")

    async def _take(self, columns: Mapping[str, Any]) -> None:
        query = np.frombuffer(columns["query"], "<i4")
        load = self.load
        load.ended_ns[query] = np.frombuffer(columns["ended_ns"], "<i8") - load.origin_ns
        load.service_ns[query] = np.frombuffer(columns["service_ns"], "<i8")
        load.status[query] = np.frombuffer(columns["status"], "<i1")
        load.errors.update({int(q): str(text) for q, text in columns["errors"].items()})
        self._answered[query] = True
        # An answer may overtake its query's stamp; then it is told of with the next ones.
        await self._tell(self._answered & (self._stamps != 0))

    async def _give_up(self, sending: "asyncio.Future[bytes]") -> None:
        """Tell of what is left, lost for good."""
        if not sending.done():
            await sending
            self._check_sent(sending)
        for query in np.flatnonzero(~self._answered).tolist():
            self.load.errors[query] = "no answer"
        await self._tell(np.ones_like(self._answered))

    async def _tell(self, over: NDArray[np.bool_]) -> None:
        queries = np.flatnonzero(over & self._unheard).astype(np.int32)
        self._unheard[queries] = False
        self.load.issued_ns[queries] = self._stamps[queries] - self.load.origin_ns
        if len(queries):
            await self._hear(self.load, queries)


@contextmanager
def _shared_stamps(queries: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Lend memory to share with a process: its descriptor, and zeros int64 [queries]."""
    with tempfile.TemporaryFile() as file:
        fd = os.memfd_create("mlscope-issued") if sys.platform == "linux" else file.fileno()
        try:
            os.truncate(fd, 8 * queries)
            yield fd, np.frombuffer(mmap.mmap(fd, 8 * queries), np.int64)
        finally:
            if fd != file.fileno():
                os.close(fd)


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
async def _process(
    mode: str, spec: dict[str, Any], *shared_fds: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `issuer` in a mode until the block ends; it is ready when the block begins."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.scheduler.issuer",
        mode,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=shared_fds,
    )
    try:
        packed: bytes = msgpack.packb(spec)
        _input(process).write(struct.pack("<I", len(packed)) + packed)
        greeting = await _message(process)
        if greeting != READY:
            _columns_of(greeting)
            raise IssuerFailed(f"the {mode}er did not get ready")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _input(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


def _columns_of(message: bytes) -> Mapping[str, Any]:
    """Return what a process told. Raises IssuerFailed when that is an error."""
    told: dict[str, Any] = msgpack.unpackb(message, strict_map_key=False)
    if "error" in told:
        raise IssuerFailed(told["error"])
    return told


async def _message(process: asyncio.subprocess.Process) -> bytes:
    """Return the process's next message. Raises IssuerFailed when it ends instead."""
    assert process.stdout is not None
    try:
        size = struct.unpack("<I", await process.stdout.readexactly(4))[0]
        return await process.stdout.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise IssuerFailed(f"an issuing process ended with {await process.wait()}") from error


def batches_of(
    order: WorkOrder, run: str, load: IssuedLoad, queries: Queries, first_sequence: int = 0
) -> Iterator[QueriesAnswered]:
    """Yield query batches of some queries of a load.

    When the agent began is not known here: `started_ns` is when the query was issued. A lost
    query has no end, its `ended_ns` is -1.
    """
    for number, first in enumerate(range(0, len(queries), _ROWS_A_BATCH)):
        rows = queries[first : first + _ROWS_A_BATCH]
        errors = [place for place, query in enumerate(rows.tolist()) if query in load.errors]
        yield QueriesAnswered(
            evaluation=order.evaluation,
            run=run,
            attempt=order.attempt,
            agent=SOURCE,
            sequence=first_sequence + number,
            count=len(rows),
            query=rows.astype("<i4").tobytes(),
            block=np.zeros(len(rows), "<i2").tobytes(),
            size=np.full(len(rows), order.session.batch_size, "<i4").tobytes(),
            due_ns=load.due_ns[rows].astype("<i8").tobytes(),
            issued_ns=load.issued_ns[rows].astype("<i8").tobytes(),
            started_ns=load.issued_ns[rows].astype("<i8").tobytes(),
            ended_ns=load.ended_ns[rows].astype("<i8").tobytes(),
            service_ns=load.service_ns[rows].astype("<i8").tobytes(),
            status=load.status[rows].astype("<i1").tobytes(),
            error_rows=tuple(errors),
            error_texts=tuple(load.errors[int(rows[place])] for place in errors),
        )
