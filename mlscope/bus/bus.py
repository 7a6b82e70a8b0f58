"""The bus: what services may do with messages. Two implementations, one contract test suite.

A fact is published durably and answered with its sequence; a command is asked and answered;
a durable delivers facts until they are acknowledged; a bucket keeps the newest value of a key.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from mlscope.bus.hearing import Hearing
from schemas.message import Envelope, Fact


@dataclass(frozen=True, slots=True)
class Recorded:
    """A fact as the log keeps it; `sequence` is its place in its stream."""

    subject: str
    sequence: int
    envelope: Envelope
    fact: Fact


class Delivery(Protocol):
    """One fact handed to a durable; it comes again until acknowledged."""

    @property
    def recorded(self) -> Recorded:
        """The fact."""
        ...

    @property
    def tries(self) -> int:
        """How often it was delivered, from 1."""
        ...

    async def ack(self) -> None:
        """Say that it is done, after its effects are durable."""
        ...

    async def retry(self, delay_s: float | None = None) -> None:
        """Ask for it again: after `delay_s`, or after the durable's own backoff.

        Past the durable's last try it is buried instead.
        """
        ...

    async def working(self) -> None:
        """Ask for more time before it is taken as lost."""
        ...

    async def bury(self, reason: str) -> None:
        """Give up on it: a dead letter with the reason, and never again."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A bucket's key and value; `value` None says that the key is gone."""

    bucket: str
    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A command as it came: its subject, its body, and whether somebody waits for the answer."""

    subject: str
    body: bytes
    wants_answer: bool


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What NATS's own discovery tells of a service (`$SRV.PING/INFO/STATS`)."""

    name: str
    version: str
    description: str
    endpoints: Mapping[str, str]


StatsSource = Callable[[], Mapping[str, object]]
"""What a service adds to `$SRV.STATS`: sequence seen, state digest, queue lengths."""

LIMIT_RUNNING = 64
"""Commands of one subject that are at work at a time, unless its service says otherwise."""

Answerer = Callable[[Asked], Awaitable[bytes | None]]
"""Answers a command. What it raises is logged and answered with `Refused(unavailable)`."""


class Bus(Protocol):
    """One connection of one service. All waits are bounded; a lost server is waited for."""

    name: str

    async def publish(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        expected: tuple[str, int] | None = None,
        traceparent: str = "",
    ) -> int:
        """Record a fact durably under `id` and return its sequence; the same id again is dropped.

        `expected` is (filter, last sequence seen on it); Conflict when another fact came first.
        Repeats under the same id while the server is away.
        Raises Conflict, StreamFull, Unreachable.
        """
        ...

    async def publish_live(self, subject: str, body: bytes) -> None:
        """Send a message nobody keeps."""
        ...

    async def ask(self, subject: str, body: bytes, *, timeout_s: float = 5.0) -> bytes:
        """Send a command and return its answer. Raises NoAnswer, Unreachable."""
        ...

    async def answer(
        self,
        subject: str,
        answerer: Answerer,
        *,
        queue: str | None,
        limit_pending: int | None = None,
        limit_running: int = LIMIT_RUNNING,
    ) -> None:
        """Answer commands on `subject` (may hold wildcards) until the bus closes.

        At most `limit_pending` (None: as the settings say) are taken, `limit_running` of them at
        work; beyond that `Refused(busy)` is answered at once.
        """
        ...

    def hear(self, subject: str) -> Hearing:
        """Yield (subject, body) of live messages; a slow reader loses the oldest, counted."""
        ...

    def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time; for ever, over reconnects.

        `durable` names one of `streams.DURABLES`. What can't be decoded is buried, not yielded.
        """
        ...

    async def read(self, filter_subject: str, *, after: int = 0) -> list[Recorded]:
        """Return every fact on a filter beyond sequence `after`, in order.

        A filter whose entity is `*` (`story_of`) reads the stream of decisions and outcomes.
        What can't be decoded is skipped and logged.
        """
        ...

    def follow(
        self, filter_subject: str, *, after: int = 0
    ) -> AsyncGenerator[Recorded | None, None]:
        """Yield every fact on a filter in order, then those to come; None once when caught up."""
        ...

    async def put(self, bucket: str, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set a key and return its revision; with `revision`, only if that is its newest.

        `revision=0` asks that the key be new. Raises Conflict.
        """
        ...

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None."""
        ...

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key."""
        ...

    def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every key as it is now, then None once, then every change; for ever.

        A key whose lease ran out comes as an entry without value.
        """
        ...

    async def changes(self, bucket: str, *, after: int) -> list[Entry]:
        """Return the keys whose newest revision is beyond `after`, in the order they were set.

        A key that was removed comes without value.
        """
        ...

    async def put_object(self, subject: str, name: str, body: bytes) -> str:
        """Store a large payload of a fact on `subject` and return its sha256.

        A name stands for one body for ever: Conflict when it is taken by another.
        Raises Conflict, PayloadsFull, Unreachable.
        """
        ...

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return a large payload of a fact on `subject`. Raises PayloadMismatch, NoSuchPayload."""
        ...

    async def purge(self, filter_subject: str, *, up_to: int = 0) -> None:
        """Drop a stream's messages on a filter (a run's batches, once they are rows).

        `up_to` is the last sequence to drop; 0 means all. Large payloads go with the messages
        that refer to them; with all of them, those that no message refers to go as well.
        """
        ...

    async def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which a durable has acknowledged every message of its own."""
        ...

    async def announce(self, facts: ServiceFacts, stats: StatsSource) -> None:
        """Answer NATS's own discovery for this service until the bus closes."""
        ...

    async def close(self) -> None:
        """Stop within a bound: deliveries end, waiting calls raise Unreachable."""
        ...


Opener = Callable[[str], AbstractAsyncContextManager[Bus]]
"""Opens a bus under a service's name."""
