"""Values that a bus returns: facts of the log, entries of buckets, commands, counts. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from schemas.message import Envelope, Fact

StatsSource = Callable[[], Mapping[str, object]]
"""Returns the data a service adds to `$SRV.STATS`: sequences, state digest, queue lengths."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A fact in the log; `sequence` is its number in its stream, from 1.

    `stored_ns` is when the server stored it, by the server's clock (epoch nanoseconds; 0 if not
    known). `envelope.time_ns` is by the sender's clock.
    """

    subject: str
    sequence: int
    envelope: Envelope
    fact: Fact
    stored_ns: int = 0

    @property
    def at_ns(self) -> int:
        """When the fact was stored, or sent if that is not known (epoch nanoseconds)."""
        return self.stored_ns or self.envelope.time_ns


class UndecodedMessage(Protocol):
    """A message of the log, undecoded; see `Recorded` for its fields."""

    @property
    def subject(self) -> str:
        """The subject that it was stored on."""
        ...

    @property
    def sequence(self) -> int:
        """Its number in its stream, from 1."""
        ...

    @property
    def body(self) -> bytes:
        """The envelope, encoded."""
        ...

    @property
    def stored_ns(self) -> int:
        """When the server stored it, by its clock (epoch nanoseconds; 0 if not known)."""
        ...


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of the log that can't be decoded, and the `reason`; see `Recorded` for the rest."""

    subject: str
    sequence: int
    stored_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a bucket with its value; a `value` of None means that the key was removed."""

    bucket: str
    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True, slots=True)
class ReceivedCommand:
    """A command as received: its subject, its body, and whether the sender expects an answer.

    `traceparent` is the W3C trace context that its sender gave, unchecked.
    """

    subject: str
    body: bytes
    wants_answer: bool
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """A service's own description for service discovery; `endpoints` are subjects by name."""

    name: str
    version: str
    description: str
    endpoints: Mapping[str, str]


@dataclass(slots=True)
class Traffic:
    """What one connection did since it was opened; `sent` and `received` count every message."""

    published: int = 0
    delivered: int = 0
    redelivered: int = 0
    buried: int = 0
    #: stored facts that could not be read: of a newer version, or damaged; each once
    unread: int = 0
    sent: int = 0
    received: int = 0
    reconnects: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a durable has still to do: facts not delivered yet, and delivered ones not settled.

    Of the latter, some were `redelivered`. It was so at `at_ns` of the server's clock (epoch).
    """

    waiting: int
    unsettled: int
    redelivered: int
    at_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class StreamContents:
    """What a stream holds: messages from the sequence `first` to `last`, of `size_bytes` in all.

    It may hold `max_bytes`; -1 means no limit. Where a filter was given, `messages` are on it.
    """

    first: int
    last: int
    size_bytes: int
    max_bytes: int
    messages: int = 0


@dataclass(slots=True)
class CommandCounts:
    """Counts of the commands on one subject since the service started."""

    requests: int = 0
    errors: int = 0
    last_error: str = ""
    processing_ns: int = 0
    open: int = 0
    """How many are being answered, or wait for it."""
