"""Facts to bytes and back, and the dead letters of what can't be read. Pure but for the clock."""

import logging
import time

from mlscope.bus.bus import Recorded
from schemas.codec import decode, encode, encode_body, is_json, unpack
from schemas.dead import LetterBuried
from schemas.errors import SchemaError
from schemas.identity import token_of
from schemas.message import Envelope, Fact, derived_id
from schemas.request import Refused

_log = logging.getLogger(__name__)
_KEPT_BYTES = 64 * 1024


def sealed(fact: Fact, *, id: str, cause: str = "", traceparent: str = "") -> bytes:  # noqa: A002
    """Return a fact in its envelope as bytes, stamped with the time of now."""
    now_ns = time.time_ns()
    return encode(Envelope.around(fact, id=id, cause=cause, time_ns=now_ns, trace=traceparent))


def opened(subject: str, sequence: int, body: bytes) -> Recorded:
    """Return a stored fact. Raises SchemaError."""
    envelope, fact = decode(body)
    return Recorded(subject, sequence, envelope, fact)


def readable(subject: str, sequence: int, body: bytes) -> Recorded | None:
    """Return a stored fact, or None (logged) when it can't be read: a reader goes on."""
    try:
        return opened(subject, sequence, body)
    except SchemaError as error:
        _log.warning("skipped %s at %d: %s", subject, sequence, error)
        return None


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
    """Return why an answer refuses, or None when it does not."""
    try:
        told = unpack(answer)
    except SchemaError:
        return None
    if told.get("accepted") is not False:
        return None
    return f"{told.get('error', '')}: {told.get('message', '')}"
