"""Facts to bytes and back, large ones by way of the object store, and dead letters."""

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable

from mlscope.bus.bus import Recorded
from mlscope.bus.errors import NoSuchPayload, PayloadMismatch
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from schemas.codec import (
    decode,
    decode_envelope,
    encode,
    encode_body,
    fact_in,
    is_json,
    pack,
    unpack,
)
from schemas.dead import LetterBuried
from schemas.errors import MalformedMessage, SchemaError
from schemas.identity import token_of
from schemas.message import Envelope, Fact, derived_id
from schemas.request import Refused
from schemas.subjects import subject_of

_log = logging.getLogger(__name__)
_KEPT_BYTES = 64 * 1024
_REFERENCE_BYTES = 16 * 1024
_HEAD_BYTES = 64

USELESS = (SchemaError, NoSuchPayload, PayloadMismatch)
"""What opening a fact raises when trying again would not help."""


Keep = Callable[[str, str, bytes], Awaitable[str]]
"""Stores a large payload for a fact's subject under a name and returns its sha256."""

Fetch = Callable[[str, str, str], Awaitable[bytes]]
"""Returns a large payload by subject, name and sha256. Raises NoSuchPayload, PayloadMismatch."""


async def sealed(subject: str, envelope: Envelope, keep: Keep) -> bytes:
    """Return an envelope as bytes; data that are too large to travel become an object.

    The object's name holds what it contains: a repeat that says something else under the same id
    is dropped by the log, and must not replace what the log refers to.
    """
    body = encode(envelope)
    if len(body) <= MAX_PAYLOAD_BYTES:
        return body
    data = pack(envelope.data)
    name = f"{envelope.schema_}-{envelope.id}-{hashlib.sha256(data).hexdigest()[:16]}"
    sha256 = await keep(subject, name, data)
    fields = {"data": {}, "payload": name, "payload_sha256": sha256}
    return encode(envelope.model_copy(update=fields))


def enveloped(fact: Fact, *, id: str, cause: str = "", traceparent: str = "") -> Envelope:  # noqa: A002
    """Return a fact in its envelope, stamped with the time of now."""
    now_ns = time.time_ns()
    return Envelope.around(fact, id=id, cause=cause, time_ns=now_ns, trace=traceparent)


async def opened(subject: str, sequence: int, body: bytes, fetch: Fetch) -> Recorded:
    """Return a stored fact. Raises SchemaError, NoSuchPayload, PayloadMismatch, Unreachable."""
    envelope = decode_envelope(body)
    data = envelope.data
    if envelope.payload:
        data = unpack(await fetch(subject, envelope.payload, envelope.payload_sha256))
    fact = fact_in(envelope, data)
    check_subject(subject, fact)
    return Recorded(subject, sequence, envelope, fact)


def heard(subject: str, body: bytes) -> tuple[Envelope, Fact]:
    """Return a live fact. Raises SchemaError, also for one whose data travel as an object."""
    envelope, fact = decode(body)
    check_subject(subject, fact)
    return envelope, fact


def check_subject(subject: str, fact: Fact) -> None:
    """Check that a fact came under its own subject. Raises MalformedMessage.

    Who may say what is decided by subjects, so a fact under another's subject is none.
    """
    if (own := subject_of(fact)) != subject:
        raise MalformedMessage(field="subject", found=subject, expected=f"{own} for this fact")


async def readable(subject: str, sequence: int, body: bytes, fetch: Fetch) -> Recorded | None:
    """Return a stored fact, or None (logged) when it can't be read: a reader goes on."""
    try:
        return await opened(subject, sequence, body, fetch)
    except USELESS as error:
        _log.warning("skipped %s at %d: %s", subject, sequence, error)
        return None


def payload_of(body: bytes) -> str:
    """Return the name of the object a stored message refers to, '' when it refers to none."""
    if len(body) > _REFERENCE_BYTES:
        return ""
    try:
        return decode_envelope(body).payload
    except SchemaError:
        return ""


def dead_letter(
    service: str, reason: str, *, subject: str, body: bytes, stream: str = "", **place: int
) -> tuple[LetterBuried, str]:
    """Return a dead letter and its id; `place` is `sequence` and `deliveries`, if it has some.

    A stored message's letter gets the same id every time; a command's is new each time.
    """
    letter = LetterBuried(
        service=token_of(service),
        reason=reason,
        subject=subject,
        stream=stream,
        body=body[:_KEPT_BYTES],
        **place,
    )
    cause = f"{stream} {place['sequence']}" if stream else f"{subject} {time.time_ns()}"
    return letter, derived_id(cause, letter.schema_name(), service)


def refusal(error: str, message: str, asked: bytes) -> bytes:
    """Return a Refused in the encoding of the question."""
    return encode_body(Refused(error=error, message=message), json_text=is_json(asked))


def refused_reason(answer: bytes) -> str | None:
    """Return why an answer refuses, or None when it does not.

    Whether something is accepted is the first field of every answer that says so at all: the
    others, which may be megabytes, are not read.
    """
    if b"accepted" not in answer[:_HEAD_BYTES]:
        return None
    try:
        told = unpack(answer)
    except SchemaError:
        return None
    if told.get("accepted") is not False:
        return None
    return f"{told.get('error', '')}: {told.get('message', '')}"
