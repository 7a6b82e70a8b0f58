"""Values that a bus returns: facts of the log, entries of buckets, commands. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.message import Envelope, Fact


@dataclass(frozen=True, slots=True)
class Recorded:
    """A fact in the log; `sequence` is its number in its stream, from 1."""

    subject: str
    sequence: int
    envelope: Envelope
    fact: Fact


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a bucket with its value; a `value` of None means that the key was removed."""

    bucket: str
    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True, slots=True)
class ReceivedCommand:
    """A command as received: its subject, its body, and whether the sender expects an answer."""

    subject: str
    body: bytes
    wants_answer: bool


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """A service's own description for service discovery; `endpoints` are subjects by name."""

    name: str
    version: str
    description: str
    endpoints: Mapping[str, str]
