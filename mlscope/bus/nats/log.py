"""Reading of the log over JetStream, complete and without a consumer.

Reading uses batched Direct Get (server 2.11): for one request the server walks the stream from a
sequence on and sends many messages of a filter. This is linear in the messages, keeps no state on
the server and resumes by sequence, so an interruption costs one repeated request.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from mlscope.bus.errors import (
    BusError,
    NoAnswer,
    NotProvisioned,
    Unreachable,
)
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.streams import live_filters, republished

_log = logging.getLogger(__name__)
_BATCH = 1000
_POLL_S = 1.0
_SETTLE_S = (0.002, 0.01, 0.05, 0.25)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a stream, undecoded."""

    subject: str
    sequence: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def stored_ns(self) -> int:
        """When the server stored it, by its clock (epoch nanoseconds)."""
        return epoch_ns(self.headers["Nats-Time-Stamp"])


def epoch_ns(text: str) -> int:
    """Return a time that the server writes, `2026-01-31T12:00:00.123456789Z`, in nanoseconds."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    whole_s = int(datetime.fromisoformat(f"{seconds}+00:00").timestamp())
    return whole_s * 1_000_000_000 + int(fraction.ljust(9, "0"))


async def last_on(connection: Connection, stream: str, subject: str) -> StoredMessage | None:
    """Return the last message on a literal `subject` of `stream`, over `connection`, or None.

    Raises NotProvisioned, NotPermitted, Unreachable.
    """

    async def once() -> StoredMessage | None:
        message = await connection.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"")
        status = (message.headers or {}).get("Status")
        return None if status == "404" else as_stored(message)

    return await _read_patiently(connection, stream, once)


async def read_on(
    connection: Connection, stream: str, filter_subject: str, after: int
) -> tuple[list[StoredMessage], int]:
    """Return messages of `stream` on `filter_subject`, and the number of messages that remain.

    Reads over `connection` from the sequence `after` on, a bounded number of messages and bytes;
    an empty list means that there are none. Raises NotProvisioned, NotPermitted, Unreachable.
    """
    request = {
        "seq": after + 1,
        "next_by_subj": filter_subject,
        "batch": _BATCH,
    }

    async def once() -> tuple[list[StoredMessage], int]:
        async with connection.batch_reads.turn() as max_bytes:
            asked = request | {"max_bytes": max_bytes}
            return await _read_batch(connection, f"$JS.API.DIRECT.GET.{stream}", asked)

    return await _read_patiently(connection, stream, once)


async def _read_patiently(
    connection: Connection, stream: str, once: Callable[[], Awaitable[T]]
) -> T:
    try:
        return await connection.patiently(once)
    except NoAnswer as error:
        raise NotProvisioned(stream) from error


async def _read_batch(
    connection: Connection, subject: str, request: Mapping[str, object]
) -> tuple[list[StoredMessage], int]:
    replies: asyncio.Queue[Msg | BusError] = asyncio.Queue()
    token = connection.expect(subject, replies.put_nowait, replies.put_nowait)
    messages: list[StoredMessage] = []
    try:
        await connection.send(subject, json.dumps(request).encode(), reply=token)
        while True:
            async with asyncio.timeout(connection.attempt_s):
                reply = await replies.get()
            if isinstance(reply, BusError):
                raise reply
            headers = reply.headers or {}
            status = headers.get("Status")
            if status == "503":
                raise NoAnswer(subject)
            if status is not None:
                return messages, int(headers.get("Nats-Num-Pending", 0))
            if messages and int(headers["Nats-Last-Sequence"]) != messages[-1].sequence:
                raise Unreachable(f"{subject}: a reply was lost")
            messages.append(as_stored(reply))
    except TimeoutError as error:
        raise Unreachable(subject) from error
    finally:
        connection.forget(token)


def as_stored(message: Msg) -> StoredMessage:
    """Return what Direct Get answered as a stored message."""
    headers = message.headers or {}
    return StoredMessage(
        headers["Nats-Subject"], int(headers["Nats-Sequence"]), headers, bytes(message.data)
    )


class _WakeUps:
    """Counts live messages whose stored copies were not read yet."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def wake(self, _: object = None) -> None:
        """Count one more live message."""
        self.count += 1
        self._event.set()

    def settle(self, count: int) -> None:
        """Subtract the messages read; 0 means that the others will not be found either."""
        self.count = max(0, self.count - count) if count else 0

    async def wait(self, timeout_s: float) -> None:
        """Return at the next live message, at the latest after `timeout_s`."""
        self._event.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


async def tail(
    connection: Connection,
    stream: str,
    filter_subject: str,
    after: int,
    *,
    ticks: bool = False,
) -> AsyncGenerator[StoredMessage | None, None]:
    """Yield every message of `stream` on `filter_subject` above sequence `after`, without end.

    Messages are read over `connection`, in order. Yields None once when caught up; with `ticks`,
    every time no more messages are there.

    A live message on the filter only wakes the reader. Every yielded message is read from the
    stream, by sequence. Streams send live messages on once they are stored, but of a cluster the
    server that answers may follow the one that sent them, hence the short retries; a poll each
    second finds what no live message announces (a key that expired, a lost wake-up).
    """
    wake_ups = _WakeUps()
    subscriptions = [
        await connection.subscribe(republished(subject), wake_ups.wake)
        for subject in live_filters(filter_subject)
    ]
    connection.availability.on_reconnect(wake_ups.wake)
    is_caught_up = False
    try:
        while not connection.availability.closed.is_set():
            try:
                messages, remaining = await _next_on(
                    connection, stream, filter_subject, after, wake_ups
                )
            except Unreachable as error:
                _log.warning("%s is not read for now: %s", filter_subject, error)
                continue
            for stored in messages:
                after = stored.sequence
                yield stored
            if remaining:
                continue
            if ticks or not is_caught_up:
                is_caught_up = True
                yield None
            if not wake_ups.count:
                await wake_ups.wait(_POLL_S)
    finally:
        connection.availability.off_reconnect(wake_ups.wake)
        for subscription in subscriptions:
            await connection.unsubscribe(subscription)


async def _next_on(
    connection: Connection, stream: str, filter_subject: str, after: int, wake_ups: _WakeUps
) -> tuple[list[StoredMessage], int]:
    for pause_s in (*_SETTLE_S, None):
        messages, remaining = await read_on(connection, stream, filter_subject, after)
        if messages or not wake_ups.count or pause_s is None:
            break
        await asyncio.sleep(pause_s)
    wake_ups.settle(len(messages))
    return messages, remaining
