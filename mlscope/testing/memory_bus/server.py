"""The server of the memory bus: streams, durables, buckets and subscriptions of one process."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlscope.bus.errors import NotProvisioned, PayloadTooLarge, Unreachable
from mlscope.bus.streams import (
    BUCKETS,
    DURABLES,
    MAX_MESSAGE_BYTES,
    STORES,
    STREAMS,
    Bucket,
    Durable,
    Store,
    Stream,
    matches,
)
from mlscope.testing.memory_bus.bucket import BucketState
from mlscope.testing.memory_bus.durable import DurableState
from mlscope.testing.memory_bus.log import Clock, Log
from mlscope.testing.memory_bus.objects import ObjectState

Receive = Callable[[str, bytes, str], None]
"""Handles a message: subject, body, reply subject ('' if the sender expects no answer)."""


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One subscription; one member of a queue group gets each message."""

    filter_subject: str
    queue: str
    receive: Receive


class MemoryServer:
    """Streams, durables, buckets and subscriptions in memory.

    `stop` makes the server unreachable and `start` reachable again; nothing is lost. A test that
    passes its own `clock` calls `wake` after moving it.
    """

    def __init__(
        self,
        *,
        clock: Clock = time.monotonic,
        streams: Iterable[Stream] = STREAMS,
        durables: Iterable[Durable] = DURABLES,
        buckets: Iterable[Bucket] = BUCKETS,
        stores: Iterable[Store] = STORES,
    ) -> None:
        """Start with these `streams`, `durables`, `buckets` and `stores`, all empty.

        `clock` returns seconds that never decrease.
        """
        self.clock = clock
        self.logs = {stream.name: Log(stream, clock) for stream in streams}
        self.durables = {d.name: DurableState(d, self.logs[d.stream]) for d in durables}
        self.buckets = {bucket.name: BucketState(bucket, clock) for bucket in buckets}
        self.stores = {store.name: ObjectState(store) for store in stores}
        self.is_away = False
        #: the trace contexts of the commands that wait for an answer, by reply subject
        self.traceparents: dict[str, str] = {}
        self._literal: dict[str, list[Listener]] = {}
        self._wild: list[Listener] = []
        self._turn = itertools.count()
        self._changed = asyncio.Event()

    def log_of(self, subject: str) -> Log:
        """Return the stream that stores a subject. Raises NotProvisioned."""
        for log in self.logs.values():
            if log.captures(subject):
                return log
        raise NotProvisioned(f"a stream for {subject}")

    def store(
        self,
        subject: str,
        body: bytes,
        *,
        id: str,  # noqa: A002
        expected: tuple[str, int] | None,
    ) -> int:
        """Store `body` on `subject`, pass it on to live subscribers, and return its sequence.

        `id` and `expected` are as in `Log.append`.
        """
        self._check(subject, body)
        self._pass_on(subject, body, "")
        sequence = self.log_of(subject).append(subject, body, id=id, expected=expected)
        self.wake()
        return sequence

    def send(self, subject: str, body: bytes, reply: str = "") -> int:
        """Pass `body` on to subscribers of `subject`, with the subject `reply` for an answer.

        A stream that stores the subject stores it as well. Returns the number of receivers.
        """
        self._check(subject, body)
        for log in self.logs.values():
            if log.captures(subject):
                log.append(subject, body)
                self.wake()
        return self._pass_on(subject, body, reply)

    def _check(self, subject: str, body: bytes) -> None:
        if self.is_away:
            raise Unreachable("the server is away")
        if len(body) > MAX_MESSAGE_BYTES:
            raise PayloadTooLarge(subject, len(body), MAX_MESSAGE_BYTES)

    def _pass_on(self, subject: str, body: bytes, reply: str) -> int:
        matching = [own for own in self._wild if matches(own.filter_subject, subject)]
        matching += self._literal.get(subject, ())
        queues: dict[str, list[Listener]] = {}
        for listener in matching:
            queues.setdefault(listener.queue or str(id(listener)), []).append(listener)
        for group in queues.values():
            group[next(self._turn) % len(group)].receive(subject, body, reply)
        return len(queues)

    def listen(self, filter_subject: str, receive: Receive, queue: str = "") -> Listener:
        """Call `receive` with every message on `filter_subject` until `leave`.

        Members of the same `queue` group share the messages.
        """
        listener = Listener(filter_subject, queue, receive)
        if _is_wild(filter_subject):
            self._wild.append(listener)
        else:
            self._literal.setdefault(filter_subject, []).append(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """End a subscription."""
        subject = listener.filter_subject
        listeners = self._wild if _is_wild(subject) else self._literal.get(subject, [])
        with contextlib.suppress(ValueError):
            listeners.remove(listener)
        if not listeners:
            self._literal.pop(subject, None)

    def new_inbox(self, name: str) -> str:
        """Return a new reply subject."""
        return f"_INBOX_{name}.{next(self._turn)}"

    def stop(self) -> None:
        """Make the server unreachable."""
        self.is_away = True
        self.wake()

    def start(self) -> None:
        """Make the server reachable again."""
        self.is_away = False
        self.wake()

    def wake(self) -> None:
        """Wake every waiting call, so that it checks again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self, due_s: float | None = None) -> None:
        """Return at the next change, at the latest at the clock time `due_s`."""
        waiting = self._changed.wait()
        if due_s is None:
            await waiting
            return
        with contextlib.suppress(TimeoutError):
            # Not wait_for: in Python 3.11 it loses a cancellation that comes with the change.
            async with asyncio.timeout(max(due_s - self.clock(), 0.0)):
                await waiting


def _is_wild(filter_subject: str) -> bool:
    tokens = filter_subject.split(".")
    return "*" in tokens or tokens[-1] == ">"
