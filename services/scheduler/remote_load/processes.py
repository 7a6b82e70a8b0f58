"""Runs the two processes of `issuer` that issue a remote load, and reads their answers (I/O)."""

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
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from mlscope.load.load import Load
from mlscope.tasks import end_process
from schemas.plan import WorkOrder
from schemas.subjects import agent_command
from services.scheduler.errors import IssuerFailed
from services.scheduler.remote_load.continuation import Continuation
from services.scheduler.remote_load.issued import LoadProgress, LoadRecord, Queries
from services.scheduler.remote_load.issuer import AT_LIMIT, READY

Process = asyncio.subprocess.Process

_LEAD_NS = 20_000_000
"""Time from the order to begin to the origin of the load's clock."""

_SILENCE_S = 0.5
"""Time without a report after which no query was answered: the reader reports twice as often."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """How an issuing process reaches the broker; `seed` never leaves its standard input."""

    url: str
    seed: str | None
    inbox_prefix: str
    authority_file: Path | None = None
    broker_uid: int | None = None


OnFinal = Callable[[LoadRecord, Queries], Awaitable[None]]
"""Takes a load and the numbers of queries whose rows in it are now final."""


async def _ignore(_: LoadRecord, __: Queries) -> None:
    """Do nothing."""


async def issue_load(
    broker: BrokerAddress,
    order: WorkOrder,
    run: str,
    continuation: Continuation,
    lost_after_s: float,
    *,
    on_final: OnFinal = _ignore,
) -> LoadRecord:
    """Issue an open loop to the agent of an `order`, and return what became of its queries.

    `run` is the run of the order whose load it is; `broker` is where the agent listens. The
    `continuation` has the load, and says how many of its queries may be issued. `on_final` is
    called with each query once, while the load goes on. A query without answer is lost
    `lost_after_s` after the last answer or issue. Raises IssuerFailed when a process or its
    connection breaks.
    """
    load = continuation.load
    assert load.due_ns is not None, "only open loops are issued remotely"
    with _shared_memory(1 + load.queries) as (shared_fd, shared):
        limit, stamps = shared[:1], shared[1:]
        limit[0] = continuation.limit
        spec = _spec(broker, order, run, load) | {"shared_fd": shared_fd}
        async with (
            _process("read", spec) as reader,
            _process("send", spec, shared_fd) as sender,
        ):
            origin_ns = time.monotonic_ns() + _LEAD_NS
            _input(sender).write(struct.pack("<q", origin_ns))
            progress = LoadProgress(origin_ns, load.due_ns, stamps)

            async def set_limit() -> None:
                elapsed_s = (time.monotonic_ns() - origin_ns) * 1e-9
                limit[0] = await asyncio.to_thread(continuation.allowance, progress, elapsed_s)

            follower = _LoadFollower(progress, reader, sender, lost_after_s)
            await follower.follow(on_final, set_limit)
        return progress.first(progress.issued)


class _LoadFollower:
    """Reads from both processes until the load is complete."""

    def __init__(
        self, progress: LoadProgress, reader: Process, sender: Process, lost_after_s: float
    ) -> None:
        self._progress = progress
        self._reader = reader
        self._lost_after_s = lost_after_s
        self._sending = asyncio.ensure_future(_message(sender))

    async def follow(self, on_final: OnFinal, set_limit: Callable[[], Awaitable[None]]) -> None:
        """Call `on_final` with queries until none is left.

        `set_limit` is called whenever answers came, and when none came for a while.
        """
        progress = self._progress
        try:
            async with aclosing(self._answers()) as answers:
                async for columns in answers:
                    final = progress.take(columns) if columns else np.zeros(0, np.int32)
                    await set_limit()
                    if len(final):
                        await on_final(progress.load, final)
            await self._check_sent()
            final = progress.give_up()
            if len(final):
                await on_final(progress.load, final)
        finally:
            self._sending.cancel()

    async def _answers(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the reader's columns, until it is through or no more answer is to be expected.

        They are empty where none came for a while.
        """
        message = asyncio.ensure_future(_message(self._reader))
        try:
            while await self._wait_for(message):
                if not message.done():
                    yield {}
                    continue
                columns = _columns_of(message.result())
                if not columns:
                    break
                yield columns
                message = asyncio.ensure_future(_message(self._reader))
        finally:
            message.cancel()
        missing = self._progress.load.queries - self._progress.answered
        if message.done() and not message.cancelled() and missing and not self._is_through:
            raise IssuerFailed(f"the broker closed the connection before {missing} answers came")

    @property
    def _is_through(self) -> bool:
        """Whether every query that may be issued was, and has an answer."""
        return self._sending.done() and not self._progress.waiting

    async def _wait_for(self, message: "asyncio.Future[bytes]") -> bool:
        """Wait for the reader's message, the sender's end or a while; False when all is over."""
        if not self._sending.done():
            both = {message, self._sending}
            await asyncio.wait(both, timeout=_SILENCE_S, return_when=asyncio.FIRST_COMPLETED)
            if self._sending.done():
                await self._check_sent()
            return True
        if self._is_through:
            return False
        await asyncio.wait({message}, timeout=self._lost_after_s)
        return message.done()

    async def _check_sent(self) -> None:
        """Raise IssuerFailed unless the sender issued every query that may be issued."""
        end = _columns_of(await self._sending)
        issued, queries = self._progress.issued, self._progress.load.queries
        if issued < queries and not end.get(AT_LIMIT):
            raise IssuerFailed(f"{issued} of {queries} queries were issued")


@contextmanager
def _shared_memory(count: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Lend memory to share with a process: its descriptor, and zeros int64 [count]."""
    with tempfile.TemporaryFile() as file:
        fd = os.memfd_create("mlscope-issued") if sys.platform == "linux" else file.fileno()
        try:
            os.truncate(fd, 8 * count)
            yield fd, np.frombuffer(mmap.mmap(fd, 8 * count), np.int64)
        finally:
            if fd != file.fileno():
                os.close(fd)


def _spec(broker: BrokerAddress, order: WorkOrder, run: str, load: Load) -> dict[str, Any]:
    """Return the input of an issuing process; see `issuer`."""
    assert load.due_ns is not None
    return {
        "url": broker.url,
        "seed": broker.seed,
        "authority_file": str(broker.authority_file or ""),
        "broker_uid": broker.broker_uid,
        "inbox": f"{broker.inbox_prefix}.{secrets.token_hex(8)}",
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
async def _process(mode: str, spec: dict[str, Any], *shared_fds: int) -> AsyncIterator[Process]:
    """Run `issuer` in a mode until the block ends; it is ready when the block begins."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "services.scheduler.remote_load.issuer",
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
        await end_process(process)


def _input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


def _columns_of(message: bytes) -> Mapping[str, Any]:
    """Return the columns of a process's message. Raises IssuerFailed where it is an error."""
    columns: dict[str, Any] = msgpack.unpackb(message, strict_map_key=False)
    if "error" in columns:
        raise IssuerFailed(columns["error"])
    return columns


async def _message(process: Process) -> bytes:
    """Return the process's next message. Raises IssuerFailed when it ends instead."""
    assert process.stdout is not None
    try:
        size = struct.unpack("<I", await process.stdout.readexactly(4))[0]
        return await process.stdout.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise IssuerFailed(f"an issuing process ended with {await process.wait()}") from error
