"""What every message is: frozen data, tolerant of fields added later, and the envelope of a fact.

A command travels bare (any NATS client can write it); a fact travels in an `Envelope`.
"""

import hashlib
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

VERSION = 1


class Message(BaseModel):
    """Frozen data. Unknown fields are tolerated: within a version fields are only added."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class Command(Message):
    """A wish, in the imperative; refused by name when a field it does not know is present."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    verb: ClassVar[str]


class Fact(Message):
    """Something that happened, in the past tense; `entity.happened` is its name and its subject."""

    entity: ClassVar[str]
    happened: ClassVar[str]

    @classmethod
    def schema_name(cls) -> str:
        """Return `entity.happened`, the name on the wire."""
        return f"{cls.entity}.{cls.happened}"


class Envelope(Message):
    """A fact with where it came from.

    `id` derives from the cause, so a repeat says the same thing. `time_ns` is epoch
    nanoseconds, a label only. `data` is the fact's own fields; above 512 KiB it is empty, and
    the object store's `payload` holds it as msgpack, to be checked against `payload_sha256`.
    """

    schema_: str = Field(alias="schema", serialization_alias="schema")
    version: int = VERSION
    id: str
    cause: str = ""
    time_ns: int
    traceparent: str = ""
    data: dict[str, Any]
    payload: str = ""
    payload_sha256: str = ""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @classmethod
    def around(cls, fact: Fact, *, id: str, cause: str, time_ns: int, trace: str = "") -> Self:  # noqa: A002
        """Wrap a fact; `trace` is a W3C traceparent handed on unread."""
        return cls(
            schema_=fact.schema_name(),
            id=id,
            cause=cause,
            time_ns=time_ns,
            traceparent=trace,
            data=fact.model_dump(mode="python"),
        )


def derived_id(cause: str, name: str, ordinal: int | str = 0) -> str:
    """Return the id of the `ordinal`-th message called `name` that `cause` led to (32 hex)."""
    return hashlib.sha256(f"{cause}\n{name}\n{ordinal}".encode()).hexdigest()[:32]
