"""Errors of the bus; errors of the client library are translated into these."""

from collections.abc import Mapping
from typing import Any, Self

_PASSING = frozenset({10004, 10008, 10009, 10118, 10119, 10158, 10163})
"""JetStream's errors while servers of a cluster come, go or elect a leader: incomplete results, not
available, not the leader, stream or consumer offline, the same message id or guard in process.
https://github.com/nats-io/nats-server/blob/main/server/errors.json"""


class BusError(Exception):
    """A call on the bus failed."""


class Unreachable(BusError):
    """No server could be reached in time."""


class NoReply(Unreachable):
    """A server is connected, but sent no reply in time."""


class NoAnswer(BusError):
    """No service answered a command in time."""

    def __init__(self, subject: str) -> None:
        """Name the command's subject."""
        self.subject = subject
        super().__init__(f"no answer on {subject}")


class Conflict(BusError):
    """Another writer was first: read again and decide again."""

    def __init__(self, subject: str, expected: int, actual: int = 0) -> None:
        """Name the guarded `subject`, the `expected` sequence and the `actual` one (0: unknown)."""
        self.subject = subject
        self.expected = expected
        self.actual = actual
        super().__init__(f"{subject} is beyond sequence {expected}")


class StreamFull(BusError):
    """The stream is full: it refuses messages until some are purged."""

    def __init__(self, subject: str) -> None:
        """Name the subject of the refused message."""
        self.subject = subject
        super().__init__(f"stream full: {subject}")


class PayloadsFull(StreamFull):
    """The object store is full: purge batches or enlarge the store."""

    def __init__(self, subject: str, store: str) -> None:
        """Name the subject of the fact with the large payload, and the full store."""
        super().__init__(subject)
        self.store = store
        fix = "raise MLSCOPE_PAYLOADS_MAX_BYTES and provision"
        self.args = (f"object store {store} is full, {fix}: {subject}",)


class NotPermitted(BusError):
    """The connection's key has no permission for this."""

    def __init__(self, subject: str) -> None:
        """Name the denied subject."""
        self.subject = subject
        super().__init__(f"not permitted: {subject}")


class KeyRevoked(BusError):
    """The server took the connection's key before, and takes it no more."""

    def __init__(self, name: str) -> None:
        """Name the connection: a service or a person."""
        way_back = "`mlscope agents invite NAME` on the cluster's machine lets it join again"
        advice = f"; {way_back}" if name == "agent" else ""
        super().__init__(f"this {name}'s key was revoked by its cluster{advice}")


class NotProvisioned(BusError):
    """A stream, durable or bucket is missing: run `mlscope provision`."""

    def __init__(self, name: str) -> None:
        """Name the missing stream, durable or bucket."""
        self.name = name
        super().__init__(f"{name} does not exist; run `mlscope provision`")


class PayloadTooLarge(BusError):
    """A message is larger than the server accepts; store it as an object instead."""

    def __init__(self, subject: str, size_bytes: int, limit_bytes: int) -> None:
        """Name the `subject`, the message's `size_bytes` and the server's `limit_bytes`."""
        self.subject, self.size_bytes, self.limit_bytes = subject, size_bytes, limit_bytes
        super().__init__(f"{subject}: {size_bytes} bytes, the limit is {limit_bytes}")


class SubjectTooLong(BusError):
    """A subject is longer than the server takes; it would close the connection."""

    def __init__(self, subject: str) -> None:
        """Show the start of the `subject`."""
        super().__init__(f"a subject of {len(subject)} characters: {subject[:80]}…")


class NoSuchPayload(BusError):
    """A large payload does not exist (any more)."""

    def __init__(self, name: str) -> None:
        """Name the payload."""
        self.name = name
        super().__init__(f"no payload {name}")


class PayloadMismatch(BusError):
    """A large payload does not match its checksum."""

    def __init__(self, name: str, expected: str, actual: str) -> None:
        """Give the payload's `name`, and the `expected` and `actual` sha256."""
        self.name, self.expected, self.actual = name, expected, actual
        super().__init__(f"payload {name}: sha256 {actual}, expected {expected}")


class ServerRefused(BusError):
    """JetStream refused an API call."""

    def __init__(self, subject: str, code: int, error: int, description: str) -> None:
        """Give the API `subject`, the HTTP-like `code`, JetStream's `error` and `description`."""
        self.subject, self.code, self.error, self.description = subject, code, error, description
        super().__init__(f"{subject}: {description} ({code}/{error})")

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed soon: servers are electing a leader, or catching up."""
        return self.error in _PASSING

    @classmethod
    def of(cls, subject: str, error: Mapping[str, Any]) -> Self:
        """Return the error in the field `error` of an answer on `subject`."""
        return cls(
            subject,
            int(error.get("code", 0)),
            int(error.get("err_code", 0)),
            str(error.get("description", "")),
        )


class TooFewServers(BusError):
    """The cluster has fewer servers than a stream is to be kept by."""

    def __init__(self, stream: str, replicas: int) -> None:
        """Name the `stream`, and the number of `replicas` that it was to have."""
        super().__init__(
            f"{stream} cannot have {replicas} replicas: the cluster has fewer servers; start the "
            "others or lower MLSCOPE_REPLICAS"
        )


class ServerTooOld(BusError):
    """The NATS server lacks what mlscope needs."""

    def __init__(self, version: str, least: str) -> None:
        """Give the server's `version` and the `least` one that is new enough."""
        self.version = version
        super().__init__(f"nats-server {version} is too old; install {least} or newer")


class NotRetried(BusError):
    """The message of a letter was not handled; the letter stays, or a new one says why."""
