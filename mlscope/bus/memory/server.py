"""What a NATS server is to several buses of one process, in memory."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlscope.bus.errors import NotProvisioned, PayloadTooLarge, Unreachable
from mlscope.bus.memory.bucket import BucketState
from mlscope.bus.memory.durable import DurableState
from mlscope.bus.memory.log import Clock, Log, matches
from mlscope.bus.memory.objects import ObjectState
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
)

Receive = Callable[[str, bytes, str], None]
"""Takes a message: subject, body, reply subject ('' when nobody waits)."""


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One subscription; of one queue group only one gets a message."""

    filter_subject: str
    queue: str
    receive: Receive


class MemoryServer:
    """Streams, durables, buckets and subscriptions, with a clock that may be another one.

    `stop` and `start` make it unreachable and back, nothing lost; after moving a clock of
    one's own, call `wake`.
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
        """Begin provisioned and empty."""
        self.clock = clock
        self.logs = {stream.name: Log(stream, clock) for stream in streams}
        self.durables = {d.name: DurableState(d, self.logs[d.stream]) for d in durables}
        self.buckets = {bucket.name: BucketState(bucket, clock) for bucket in buckets}
        self.stores = {store.name: ObjectState(store) for store in stores}
        self.is_away = False
        self._literal: dict[str, list[Listener]] = {}
        self._wild: list[Listener] = []
        self._turn = itertools.count()
        self._changed = asyncio.Event()

    def log_of(self, subject: str) -> Log:
        """Return the stream that keeps a subject. Raises NotProvisioned."""
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
        """Keep a message, pass it on live, and return its sequence."""
        self._check(subject, body)
        self._pass_on(subject, body, "")
        sequence = self.log_of(subject).append(subject, body, id=id, expected=expected)
        self.wake()
        return sequence

    def send(self, subject: str, body: bytes, reply: str = "") -> int:
        """Pass a message on live and return how many got it; a stream may keep it as well."""
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
        taking = [each for each in self._wild if matches(each.filter_subject, subject)]
        taking += self._literal.get(subject, ())
        queues: dict[str, list[Listener]] = {}
        for listener in taking:
            queues.setdefault(listener.queue or str(id(listener)), []).append(listener)
        for group in queues.values():
            group[next(self._turn) % len(group)].receive(subject, body, reply)
        return len(queues)

    def listen(self, filter_subject: str, receive: Receive, queue: str = "") -> Listener:
        """Have `receive` called with every message on a filter until `leave`."""
        listener = Listener(filter_subject, queue, receive)
        if _is_wild(filter_subject):
            self._wild.append(listener)
        else:
            self._literal.setdefault(filter_subject, []).append(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """End a subscription."""
        subject = listener.filter_subject
        taking = self._wild if _is_wild(subject) else self._literal.get(subject, [])
        with contextlib.suppress(ValueError):
            taking.remove(listener)
        if not taking:
            self._literal.pop(subject, None)

    def new_inbox(self, name: str) -> str:
        """Return a reply subject nobody had before."""
        return f"_INBOX_{name}.{next(self._turn)}"

    def stop(self) -> None:
        """Be unreachable."""
        self.is_away = True
        self.wake()

    def start(self) -> None:
        """Be reachable again."""
        self.is_away = False
        self.wake()

    def wake(self) -> None:
        """Have everyone who waits look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self, due_s: float | None = None) -> None:
        """Return at the next change, at the latest at `due_s` of the clock."""
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
