"""I/O: has a remote load issued by `issuer`'s two processes and makes query batches of it."""

import asyncio
import mmap
import os
import secrets
import struct
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from mlscope.load.load import Load
from schemas.plan import WorkOrder
from schemas.subjects import agent_command
from services.scheduler.errors import IssuerFailed
from services.scheduler.issued import IssuedLoad, Progress, Queries
from services.scheduler.issuer import READY

Process = asyncio.subprocess.Process

_LEAD_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class Where:
    """How an issuing process reaches the broker; `seed` never leaves its standard input."""

    url: str
    seed: str | None
    inbox_prefix: str


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
            progress = Progress(origin_ns, load.due_ns, stamps)
            await _Following(progress, reader, sender, lost_after_s).follow(hear)
        return progress.load


class _Following:
    """Listens to both processes until a load is through."""

    def __init__(
        self, progress: Progress, reader: Process, sender: Process, lost_after_s: float
    ) -> None:
        self._progress = progress
        self._reader = reader
        self._lost_after_s = lost_after_s
        self._sending = asyncio.ensure_future(_message(sender))

    async def follow(self, hear: Hear) -> None:
        """Tell `hear` of queries until none is left."""
        progress = self._progress
        try:
            async with aclosing(self._answers()) as answers:
                async for columns in answers:
                    await _tell(hear, progress, progress.take(columns))
            await self._sent()
            await _tell(hear, progress, progress.give_up())
        finally:
            self._sending.cancel()

    async def _answers(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield what the reader tells, until all is told or no more is to be hoped for."""
        answer = asyncio.ensure_future(_message(self._reader))
        try:
            while await self._is_something(answer):
                if not answer.done():
                    continue
                columns = _columns_of(answer.result())
                if not columns:
                    break
                yield columns
                answer = asyncio.ensure_future(_message(self._reader))
        finally:
            answer.cancel()
        if answer.done() and not answer.cancelled() and self._progress.unanswered:
            raise IssuerFailed(f"the reader ended before {self._progress.unanswered} answers")

    async def _is_something(self, answer: "asyncio.Future[bytes]") -> bool:
        """Wait for an answer or the sender's end; False when nothing came for too long."""
        if not self._sending.done():
            await asyncio.wait({answer, self._sending}, return_when=asyncio.FIRST_COMPLETED)
            if self._sending.done():
                await self._sent()
            return True
        done, _ = await asyncio.wait({answer}, timeout=self._lost_after_s)
        return bool(done)

    async def _sent(self) -> None:
        """Check that the sender issued every query. Raises IssuerFailed."""
        _columns_of(await self._sending)
        issued, queries = self._progress.issued, self._progress.load.queries
        if issued < queries:
            raise IssuerFailed(f"{issued} of {queries} queries were issued")


async def _tell(hear: Hear, progress: Progress, queries: Queries) -> None:
    if len(queries):
        await hear(progress.load, queries)


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
        "url": where.url,
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
