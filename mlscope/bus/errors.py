"""What can go wrong on the bus; errors of the client library are translated into these."""

from collections.abc import Mapping
from typing import Any, Self


class BusError(Exception):
    """The bus could not do what was asked."""


class Unreachable(BusError):
    """No server answered within the bound."""


class Silence(Unreachable):
    """A server is connected, but what was asked of it is not answered in time."""


class NoAnswer(BusError):
    """Nobody answered a command in time."""

    def __init__(self, subject: str) -> None:
        """Name the subject that was asked."""
        self.subject = subject
        super().__init__(f"no answer on {subject}")


class Conflict(BusError):
    """Somebody else wrote first: read again and decide anew."""

    def __init__(self, subject: str, expected: int, found: int = 0) -> None:
        """Name what was guarded, the sequence expected, and the one found, 0 where not told."""
        self.subject = subject
        self.expected = expected
        self.found = found
        super().__init__(f"{subject} is beyond sequence {expected}")


class StreamFull(BusError):
    """The stream refuses more until some of it is purged."""

    def __init__(self, subject: str) -> None:
        """Name the subject that was refused."""
        self.subject = subject
        super().__init__(f"stream full: {subject}")


class PayloadsFull(StreamFull):
    """An object store refuses more until batches are purged or the store is made larger."""

    def __init__(self, subject: str, store: str) -> None:
        """Name the subject whose fact is too large to travel without an object, and the store."""
        super().__init__(subject)
        self.store = store
        fix = "raise MLSCOPE_PAYLOADS_MAX_BYTES and provision"
        self.args = (f"object store {store} is full, {fix}: {subject}",)


class NotPermitted(BusError):
    """The key in use may not do that."""

    def __init__(self, subject: str) -> None:
        """Name the subject that was denied."""
        self.subject = subject
        super().__init__(f"not permitted: {subject}")


class NotProvisioned(BusError):
    """A stream, durable or bucket is missing: run `mlscope provision`."""

    def __init__(self, name: str) -> None:
        """Name what is missing."""
        self.name = name
        super().__init__(f"{name} does not exist; run `mlscope provision`")


class PayloadTooLarge(BusError):
    """A message is larger than the server takes: send an object's name and checksum instead."""

    def __init__(self, subject: str, size_bytes: int, limit_bytes: int) -> None:
        """Name the subject, the message's size and the server's bound."""
        self.subject, self.size_bytes, self.limit_bytes = subject, size_bytes, limit_bytes
        super().__init__(f"{subject}: {size_bytes} bytes, at most {limit_bytes} are taken")


class NoSuchPayload(BusError):
    """A large payload is gone or never was."""

    def __init__(self, name: str) -> None:
        """Name the payload."""
        self.name = name
        super().__init__(f"no payload {name}")


class PayloadMismatch(BusError):
    """A large payload is not what its checksum says."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        """Name the payload and both checksums."""
        self.name, self.expected, self.found = name, expected, found
        super().__init__(f"payload {name}: sha256 {found}, expected {expected}")


class ServerRefused(BusError):
    """JetStream refused a call of its API."""

    def __init__(self, subject: str, code: int, error: int, description: str) -> None:
        """Name the subject called, the HTTP-like code, JetStream's own number and its words."""
        self.subject, self.code, self.error, self.description = subject, code, error, description
        super().__init__(f"{subject}: {description} ({code}/{error})")

    @classmethod
    def of(cls, subject: str, error: Mapping[str, Any]) -> Self:
        """Read the `error` of an answer."""
        return cls(
            subject,
            int(error.get("code", 0)),
            int(error.get("err_code", 0)),
            str(error.get("description", "")),
        )
