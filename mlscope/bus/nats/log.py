"""The log over JetStream: guarded, idempotent publishing; complete reading without a consumer.

Reading is batched Direct Get (server 2.11): the server walks the stream from a sequence over a
filter and sends many messages for one request. It is linear, keeps no state on the server and
resumes by sequence, so a restart in the middle costs one repeated request.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from mlscope.bus.errors import (
    BusError,
    Conflict,
    NoAnswer,
    NotProvisioned,
    ServerRefused,
    StreamFull,
    Unreachable,
)
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.streams import live_filters

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_ON = "Nats-Expected-Last-Subject-Sequence-Subject"

_log = logging.getLogger(__name__)
_BATCH = 1000
_BATCH_BYTES = 8 * 1024 * 1024
_POLL_S = 1.0
_SETTLE_S = (0.002, 0.01, 0.05, 0.25)
_WRONG_LAST_SEQUENCE = 10071
_STORE_FAILED = 10077
_NO_RESOURCES = (10023, 10047)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as a stream keeps it, undecoded."""

    subject: str
    sequence: int
    headers: Mapping[str, str]
    body: bytes


async def store(
    connection: Connection,
    subject: str,
    body: bytes,
    *,
    headers: Mapping[str, str],
) -> int:
    """Have a stream keep a message and return its sequence; repeated while the server is away.

    Raises Conflict (the guard in `headers` does not hold), StreamFull, NotProvisioned,
    NotPermitted, Unreachable, ServerRefused.
    """

    async def once() -> int:
        answer = json.loads((await connection.request(subject, body, headers=headers)).data)
        if "error" in answer:
            raise _translated(subject, answer["error"], headers)
        return int(answer["seq"])

    try:
        return await connection.patiently(once)
    except NoAnswer as error:
        raise NotProvisioned(f"a stream for {subject}") from error


def _translated(subject: str, error: Mapping[str, object], headers: Mapping[str, str]) -> BusError:
    refused = ServerRefused.of(subject, error)
    if refused.error == _WRONG_LAST_SEQUENCE:
        # "wrong last sequence: 17"; a server that does not count may leave the number out.
        told = refused.description.rpartition(" ")[2]
        found = int(told) if told.isdecimal() else 0
        return Conflict(headers.get(EXPECTED_ON, subject), int(headers.get(EXPECTED, 0)), found)
    is_limit = refused.error == _STORE_FAILED and "maximum" in refused.description
    if is_limit or refused.error in _NO_RESOURCES:
        return StreamFull(subject)
    if refused.code == 503:
        return Unreachable(str(refused))
    return refused


async def last_on(connection: Connection, stream: str, subject: str) -> Stored | None:
    """Return the last message on a literal subject, or None."""

    async def once() -> Stored | None:
        message = await connection.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"")
        status = (message.headers or {}).get("Status")
        return None if status == "404" else _stored(message)

    return await _asked(connection, stream, once)


async def read_on(
    connection: Connection, stream: str, filter_subject: str, after: int
) -> tuple[list[Stored], int]:
    """Return messages on a filter beyond `after`, and how many more there are.

    Bounded by count and bytes: an empty list means that there are none.
    Raises NotProvisioned, NotPermitted, Unreachable.
    """
    request = {
        "seq": after + 1,
        "next_by_subj": filter_subject,
        "batch": _BATCH,
        "max_bytes": _BATCH_BYTES,
    }

    async def once() -> tuple[list[Stored], int]:
        return await _batch(connection, f"$JS.API.DIRECT.GET.{stream}", request)

    return await _asked(connection, stream, once)


async def _asked(connection: Connection, stream: str, once: Callable[[], Awaitable[T]]) -> T:
    try:
        return await connection.patiently(once)
    except NoAnswer as error:
        raise NotProvisioned(stream) from error


async def _batch(
    connection: Connection, subject: str, request: Mapping[str, object]
) -> tuple[list[Stored], int]:
    replies: asyncio.Queue[Msg | BusError] = asyncio.Queue()
    token = connection.expect(subject, replies.put_nowait, replies.put_nowait)
    found: list[Stored] = []
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
                return found, int(headers.get("Nats-Num-Pending", 0))
            if found and int(headers["Nats-Last-Sequence"]) != found[-1].sequence:
                raise Unreachable(f"{subject}: a reply was lost")
            found.append(_stored(reply))
    except TimeoutError as error:
        raise Unreachable(subject) from error
    finally:
        connection.forget(token)


def _stored(message: Msg) -> Stored:
    headers = message.headers or {}
    return Stored(
        headers["Nats-Subject"], int(headers["Nats-Sequence"]), headers, bytes(message.data)
    )


class _Hints:
    """Counts live messages whose stored twin was not read yet."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def wake(self, _: object = None) -> None:
        """Count one more."""
        self.count += 1
        self._event.set()

    def settle(self, found: int) -> None:
        """Take what was read off; `found` 0 gives up on the rest."""
        self.count = max(0, self.count - found) if found else 0

    async def wait(self, timeout_s: float) -> None:
        """Return at the next wake, at the latest after the time given."""
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
) -> AsyncGenerator[Stored | None, None]:
    """Yield every message on a filter beyond `after`, None once when caught up, then those to come.

    With `ticks`, None comes again each time nothing more is there.

    A live message on the filter is only the wake-up; what is yielded always comes from the
    stream, by sequence. A message may wake before it is stored, hence the short repeats; a poll
    each second catches what no live message announces (expiry markers, a lost wake-up).
    """
    hints = _Hints()
    subscriptions = [
        await connection.subscribe(each, hints.wake) for each in live_filters(filter_subject)
    ]
    connection.on_reconnect(hints.wake)
    is_caught_up = False
    try:
        while not connection.closed.is_set():
            try:
                found, more = await _next_on(connection, stream, filter_subject, after, hints)
            except Unreachable as error:
                _log.warning("%s is not read for now: %s", filter_subject, error)
                continue
            for stored in found:
                after = stored.sequence
                yield stored
            if more:
                continue
            if ticks or not is_caught_up:
                is_caught_up = True
                yield None
            if not hints.count:
                await hints.wait(_POLL_S)
    finally:
        connection.off_reconnect(hints.wake)
        for subscription in subscriptions:
            await connection.unsubscribe(subscription)


async def _next_on(
    connection: Connection, stream: str, filter_subject: str, after: int, hints: _Hints
) -> tuple[list[Stored], int]:
    for pause_s in (*_SETTLE_S, None):
        found, more = await read_on(connection, stream, filter_subject, after)
        if found or not hints.count or pause_s is None:
            break
        await asyncio.sleep(pause_s)
    hints.settle(len(found))
    return found, more
