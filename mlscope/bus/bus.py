"""The bus protocol: everything a service does with messages.

Facts are published to a durable log, which returns their sequence. Commands are sent and answered.
A durable (a named consumer) delivers facts until they are acknowledged. A bucket keeps the newest
value of each key. Two implementations (`bus.nats`, `testing.memory_bus`) pass one suite of
contract tests.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from mlscope.bus.errors import BusError
from mlscope.bus.records import (
    Backlog,
    Entry,
    ReceivedCommand,
    Recorded,
    ServiceInfo,
    StatsSource,
    StreamContents,
    Traffic,
    Unreadable,
)
from schemas.message import Fact

if TYPE_CHECKING:
    from mlscope.bus.discovery import ServiceInstance
    from mlscope.bus.live import LiveMessages


class Delivery(Protocol):
    """One delivery of a fact; the fact is delivered again until it is acknowledged."""

    @property
    def recorded(self) -> Recorded:
        """The fact, with its subject and sequence."""
        ...

    @property
    def tries(self) -> int:
        """The number of deliveries of this fact so far, from 1."""
        ...

    async def ack(self) -> None:
        """Acknowledge the fact. Call this once its effects are durable."""
        ...

    async def retry(self, delay_s: float | None = None) -> None:
        """Request redelivery after `delay_s` seconds; None uses the durable's own backoff.

        After the durable's last try the fact is buried instead.
        """
        ...

    async def in_progress(self) -> None:
        """Extend the time until the server redelivers the fact."""
        ...

    async def bury(self, reason: str) -> None:
        """Record the fact as a dead letter with the reason; it is not delivered again."""
        ...


LIMIT_RUNNING = 64
"""Default number of commands on one subject that run at once."""

MOST_ANSWERS = 4096
"""How many answers to one question are heard."""

Answerer = Callable[[ReceivedCommand], Awaitable[bytes | None]]
"""Answers a command. An exception is logged and answered with `Refused(unavailable)`."""


class Bus(Protocol):
    """One connection of one service. Every wait is bounded, also the wait for a lost server."""

    name: str

    @property
    def is_connected(self) -> bool:
        """Whether the server is there now; calls wait for one that is away."""
        ...

    @property
    def traffic(self) -> Traffic:
        """The counts of this connection, so far."""
        ...

    async def publish(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        expected: tuple[str, int] | None = None,
        traceparent: str = "",
    ) -> int:
        """Record `fact` durably under `id` and return its sequence.

        The log drops a second fact with the same id. `cause` is the id of the fact or command that
        led to this one; `traceparent` is the W3C trace context. `expected` is (filter, last
        sequence read on it): if another fact was recorded on the filter since, Conflict is raised.
        While the server is away, publishing is retried under the same id.
        Raises Conflict, StreamFull, Unreachable.
        """
        ...

    async def publish_live(self, subject: str, body: bytes) -> None:
        """Send a message that is not stored."""
        ...

    async def ask(
        self, subject: str, body: bytes, *, timeout_s: float = 5.0, traceparent: str = ""
    ) -> bytes:
        """Send the command `body` to `subject` and return the answer.

        `traceparent`, the W3C trace context of what causes it, goes along as a header.
        Raises NoAnswer after `timeout_s`, Unreachable without a connection.
        """
        ...

    async def ask_all(self, subject: str, *, within_s: float = 1.0) -> list[bytes]:
        """Ask everybody who answers on `subject`; return the first 4096 answers that come in time.

        The last one has come after `within_s`, or when a quarter of that passed without another.
        Raises Unreachable.
        """
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
        """Answer commands on `subject` (which may hold wildcards) until the bus closes.

        Of several services in the same `queue` group, one gets each command; None: every one does.
        At most `limit_pending` commands are accepted (None: as set by the settings) and
        `limit_running` of them run at once through `answerer`; further commands are answered with
        `Refused(busy)` at once.
        """
        ...

    def subscribe(self, subject: str) -> "LiveMessages":
        """Return the live messages on `subject`, as pairs of subject and body.

        A slow reader loses the oldest messages; `LiveMessages.dropped` counts them.
        """
        ...

    def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time, without end, across reconnects.

        `durable` names one of `streams.DURABLES`. Messages that can't be decoded are buried.
        """
        ...

    async def read(
        self,
        filter_subject: str,
        *,
        after: int = 0,
        at_most: int = 0,
        unreadable: list[Unreadable] | None = None,
    ) -> list[Recorded]:
        """Return every fact on `filter_subject` with a sequence above `after`, in order.

        With `at_most`, only the first facts: that number, or a few more.
        A filter with the entity `*` (`subjects.story_of`) reads the stream of decisions and
        outcomes. Messages that can't be decoded are logged, counted (`unread`) and skipped; they
        are added to `unreadable`.
        """
        ...

    def follow(
        self, filter_subject: str, *, after: int = 0
    ) -> AsyncGenerator[Recorded | None, None]:
        """Yield every fact on a filter with a sequence above `after`, in order, without end.

        Yields None once, when all facts recorded so far were yielded.
        """
        ...

    def unread(self, evaluation: str) -> int:
        """Return how many facts of an `evaluation` were read here and could not be decoded.

        A newer mlscope wrote them, or they are damaged.
        """
        ...

    async def put(self, bucket: str, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set `key` in `bucket` to `value` and return its new revision.

        With `revision`, set it only if that is its newest revision; 0 means that the key must be
        new. Raises Conflict.
        """
        ...

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None if the key does not exist."""
        ...

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key."""
        ...

    def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every current entry, then None once, then every change, without end.

        A key that was deleted or expired is yielded as an entry without a value.
        """
        ...

    async def changes(self, bucket: str, *, after: int) -> list[Entry]:
        """Return the keys whose newest revision is above `after`, in the order they were set.

        A deleted key is returned as an entry without a value.
        """
        ...

    async def put_object(self, subject: str, name: str, body: bytes) -> str:
        """Store `body`, the large payload of a fact on `subject`, and return its sha256.

        A `name` belongs to one body for ever. Raises Conflict when another body has this name,
        PayloadsFull, Unreachable.
        """
        ...

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return the large payload `name` of a fact on `subject`, checked against `sha256` (hex).

        Raises PayloadMismatch, NoSuchPayload.
        """
        ...

    async def purge(self, filter_subject: str, *, up_to: int = 0) -> None:
        """Delete a stream's messages on a filter (a run's batches, once they are rows).

        `up_to` is the last sequence to delete; 0 deletes all. Large payloads are deleted with the
        messages that refer to them; a purge of all messages also deletes unreferenced payloads.
        """
        ...

    async def contents(self, stream: str, *, on: str = "") -> StreamContents:
        """Return what a stream, or the stream of an object store, holds.

        With `on`, a filter, `messages` counts those on it. Raises BusError where it cannot be read.
        """
        ...

    async def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which every message of a durable is acknowledged."""
        ...

    async def backlog(self, durable: str) -> Backlog:
        """Return what a durable has still to do. Raises BusError where it cannot be read."""
        ...

    async def announce(self, info: ServiceInfo, stats: StatsSource) -> "ServiceInstance":
        """Answer NATS service discovery (`$SRV.PING/INFO/STATS`) until the bus closes.

        Returns this instance; its own subjects of discovery end with its id.
        """
        ...

    async def wait_closed(self) -> BusError | None:
        """Return once the bus is closed: None by `close`, or why by its server for good.

        The cause is KeyRevoked, or Unreachable.
        """
        ...

    async def close(self) -> None:
        """Close within a bounded time: deliveries end, waiting calls raise Unreachable."""
        ...


Opener = Callable[[str], AbstractAsyncContextManager[Bus]]
"""Opens a bus under a service's name."""
