"""Base classes of all messages, and the envelope of a fact.

A command is sent without an envelope (any NATS client can write it), a fact in an `Envelope`.
"""

import hashlib
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
)
from pydantic_core import CoreSchema

VERSION = 1

MAX_NAME = 512
"""The most characters of an id or of a payload's name, which becomes part of a NATS subject: the
server closes a connection that sends a longer one than its control line (4,096 bytes)."""

Name = Annotated[str, StringConstraints(max_length=MAX_NAME)]


class Message(BaseModel):
    """Frozen data. Unknown fields are ignored: within a version, fields are only added."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema by which a list ends at its first fault.

        Each fault takes a kilobyte: of a list of eight million, that of a message, gigabytes.
        """
        schema = handler(source)
        parts: list[Any] = [schema]
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                if part.get("type") in ("list", "tuple"):
                    part["fail_fast"] = True
                parts += part.values()
            elif isinstance(part, list | tuple):
                parts += part
        return schema


def leaving_out(field: str) -> Any:
    """Return a serializer of a message that leaves out a `field` that is false.

    For a field that a command got later: an older service refuses a command that names it.
    """

    def written(self: Message, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value or name != field}

    return model_serializer(mode="wrap")(written)


class Command(Message):
    """A request, named in the imperative. An unknown field is an error that names the field."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    verb: ClassVar[str]


class Fact(Message):
    """An event, named in the past tense; `entity.happened` is its name."""

    entity: ClassVar[str]
    happened: ClassVar[str]

    @classmethod
    def schema_name(cls) -> str:
        """Return `entity.happened`, the name in the envelope."""
        return f"{cls.entity}.{cls.happened}"


class Envelope(Message):
    """A fact with its origin.

    `id` derives from the cause, so a repeated fact has the same one. `time_ns` is epoch
    nanoseconds, for information only. `data` has the fact's own fields; above 512 KiB it is empty,
    and the object `payload` of the object store has it as msgpack, with the checksum
    `payload_sha256`.
    """

    schema_: Name = Field(alias="schema", serialization_alias="schema")
    version: int = VERSION
    id: Name
    cause: Name = ""
    time_ns: int
    traceparent: Name = ""
    data: dict[str, Any]
    payload: Name = ""
    payload_sha256: Name = ""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @classmethod
    def around(cls, fact: Fact, *, id: str, cause: str, time_ns: int, trace: str = "") -> Self:  # noqa: A002
        """Return the envelope of a `fact`.

        `id` is the fact's own id, `cause` that of the message that led to it, `time_ns` epoch
        nanoseconds, `trace` a W3C traceparent that is passed on unread.
        """
        return cls(
            schema_=fact.schema_name(),
            id=id,
            cause=cause,
            time_ns=time_ns,
            traceparent=trace,
            data=fact.model_dump(mode="python"),
        )


def derived_id(cause: str, name: str, ordinal: int | str = 0) -> str:
    """Return the id (32 hex digits) of the `ordinal`-th message `name` that `cause` led to."""
    return hashlib.sha256(f"{cause}\n{name}\n{ordinal}".encode()).hexdigest()[:32]
