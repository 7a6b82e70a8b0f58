"""Codec: messages to bytes and back. Facts are written as msgpack; JSON is accepted as well."""

from typing import Any

from schemas.encoding.bodies import decode_body, encode_body, is_json, pack, parse, unpack
from schemas.encoding.errors import MalformedMessage, UnknownMessage
from schemas.encoding.message_index import FACTS
from schemas.message import VERSION, Envelope, Fact

__all__ = [
    "decode",
    "decode_body",
    "decode_envelope",
    "encode",
    "encode_body",
    "fact_in",
    "is_json",
    "pack",
    "parse",
    "unpack",
]


def encode(envelope: Envelope) -> bytes:
    """Return the envelope as msgpack."""
    return pack(envelope.model_dump(by_alias=True))


def decode(body: bytes) -> tuple[Envelope, Fact]:
    """Return a fact with its envelope. Raises MalformedMessage, UnknownMessage.

    A fact whose data are in the object store raises MalformedMessage: see `decode_envelope`.
    """
    envelope = decode_envelope(body)
    if envelope.payload:
        raise MalformedMessage(
            field="data", found=f"object {envelope.payload}", expected="the fact's own fields"
        )
    return envelope, fact_in(envelope, envelope.data)


def decode_envelope(body: bytes) -> Envelope:
    """Return the envelope of a known fact. Raises MalformedMessage, UnknownMessage."""
    envelope = parse(Envelope, unpack(body))
    if envelope.version > VERSION or envelope.schema_ not in FACTS:
        raise UnknownMessage(schema=envelope.schema_, version=envelope.version)
    return envelope


def fact_in(envelope: Envelope, data: dict[str, Any]) -> Fact:
    """Return the fact of an envelope from its `data`. Raises MalformedMessage."""
    return parse(FACTS[envelope.schema_], data)
