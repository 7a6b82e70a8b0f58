"""Facts in envelopes, to bytes and back; payloads in the object store; dead letters; refusals."""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from mlscope.bus.errors import NoSuchPayload, PayloadMismatch
from mlscope.bus.records import Recorded, Traffic, UndecodedMessage, Unreadable
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from schemas.dead import LetterBuried
from schemas.encoding.codec import (
    decode,
    decode_envelope,
    encode,
    encode_body,
    fact_in,
    is_json,
    pack,
    unpack,
)
from schemas.encoding.errors import MalformedMessage, SchemaError
from schemas.message import Envelope, Fact, derived_id
from schemas.request import Refused
from schemas.subjects import place_of, subject_of
from schemas.values.identity import token_of

_log = logging.getLogger(__name__)
BURIED_BYTES = 64 * 1024
"""How much of a message's body its dead letter has."""
_MOST_REASON = 16 * 1024
"""The characters of a letter's reason. A letter fits a message: few keys may store payloads."""
_REFERENCE_BYTES = 16 * 1024
_MOST_SKIPPED = 1024
_HEAD_BYTES = 64

UNDECODABLE = (SchemaError, NoSuchPayload, PayloadMismatch)
"""Errors of decoding a stored fact that another try would raise again."""


StorePayload = Callable[[str, str, bytes], Awaitable[str]]
"""Stores a large payload, by the fact's subject and a name, and returns its sha256."""

FetchPayload = Callable[[str, str, str], Awaitable[bytes]]
"""Returns a large payload by subject, name and sha256. Raises NoSuchPayload, PayloadMismatch."""


async def encode_envelope(subject: str, envelope: Envelope, store_payload: StorePayload) -> bytes:
    """Return the bytes of `envelope`, the fact on `subject`.

    Data above `MAX_PAYLOAD_BYTES` are stored with `store_payload`, and the envelope refers to
    them. The object's name contains a digest of the data: the log drops a repeat with the same id
    and other data, and that repeat must not replace the object the log refers to.
    """
    body = encode(envelope)
    if len(body) <= MAX_PAYLOAD_BYTES:
        return body
    data = pack(envelope.data)
    name = f"{envelope.schema_}-{envelope.id}-{hashlib.sha256(data).hexdigest()[:16]}"
    sha256 = await store_payload(subject, name, data)
    fields = {"data": {}, "payload": name, "payload_sha256": sha256}
    return encode(envelope.model_copy(update=fields))


def in_envelope(fact: Fact, *, id: str, cause: str = "", traceparent: str = "") -> Envelope:  # noqa: A002
    """Return `fact` in an envelope with the current time.

    `id` identifies the fact, `cause` is the id of what led to it, `traceparent` is the W3C trace
    context.
    """
    now_ns = time.time_ns()
    return Envelope.around(fact, id=id, cause=cause, time_ns=now_ns, trace=traceparent)


async def decode_recorded(
    subject: str,
    sequence: int,
    body: bytes,
    fetch_payload: FetchPayload,
    *,
    stored_ns: int = 0,
) -> Recorded:
    """Return the fact in `body`, stored on `subject` with `sequence` at `stored_ns` (epoch).

    A payload in the object store is read with `fetch_payload`.
    Raises SchemaError, NoSuchPayload, PayloadMismatch, Unreachable.
    """
    envelope = decode_envelope(body)
    data = envelope.data
    if envelope.payload:
        data = unpack(await fetch_payload(subject, envelope.payload, envelope.payload_sha256))
    fact = fact_in(envelope, data)
    check_subject(subject, fact)
    return Recorded(subject, sequence, envelope, fact, stored_ns)


def decode_live(subject: str, body: bytes) -> tuple[Envelope, Fact]:
    """Return the envelope and fact of a live message.

    Raises SchemaError, also for a fact whose data are in the object store.
    """
    envelope, fact = decode(body)
    check_subject(subject, fact)
    return envelope, fact


def check_subject(subject: str, fact: Fact) -> None:
    """Check that a fact was sent on its own subject. Raises MalformedMessage.

    Permissions are by subject, so a fact on any other subject is not accepted.
    """
    if (own := subject_of(fact)) != subject:
        raise MalformedMessage(field="subject", found=subject, expected=f"{own} for this fact")


class SkippingReader:
    """Decodes what is read of a log; logs and counts each fact that can't be decoded once.

    Who reads on from the last fact that was readable gets the others again and again.
    """

    def __init__(self, fetch_payload: FetchPayload, traffic: Traffic) -> None:
        """Get large payloads by `fetch_payload`; count what is skipped in `traffic`."""
        self._fetch_payload = fetch_payload
        self._traffic = traffic
        self._skipped: OrderedDict[tuple[str, int], None] = OrderedDict()

    async def decode(
        self, stored: UndecodedMessage, unreadable: list[Unreadable] | None = None
    ) -> Recorded | None:
        """Return the fact in a `stored` message, or None for one that can't be decoded.

        That one is added to `unreadable`. Raises Unreachable.
        """
        subject, sequence, stored_ns = stored.subject, stored.sequence, stored.stored_ns
        fetch = self._fetch_payload
        try:
            return await decode_recorded(subject, sequence, stored.body, fetch, stored_ns=stored_ns)
        except UNDECODABLE as error:
            if unreadable is not None:
                unreadable.append(Unreadable(subject, sequence, stored_ns, str(error)))
            if (subject, sequence) not in self._skipped:
                text, place = "skipped %s at %d: %s", place_of(subject)
                _log.warning(text, subject, sequence, error, extra=place)
                self._skipped[subject, sequence] = None
                self._traffic.unread += 1
            if len(self._skipped) > _MOST_SKIPPED:
                self._skipped.popitem(last=False)
            return None

    def unread(self, evaluation: str) -> int:
        """Return how many facts of an `evaluation` were skipped, of the last 1024."""
        return sum(evaluation in subject.split(".") for subject, _ in self._skipped)


def payload_name(body: bytes) -> str:
    """Return the name of the object that a stored message refers to, '' if there is none."""
    if len(body) > _REFERENCE_BYTES:
        return ""
    try:
        return decode_envelope(body).payload
    except SchemaError:
        return ""


def dead_letter(
    service: str, reason: str, *, subject: str, body: bytes, stream: str = "", **place: int
) -> tuple[LetterBuried, str]:
    """Return the dead letter of a message and the letter's id.

    `service` gave up on the message for `reason`; `subject` and `body` are the message's, `stream`
    the stream that stores it ('' for a command), and `place` its `sequence`, `deliveries` and
    `retries`. The letter of a stored message has the same id each time, except for its retries;
    that of a command has a new one.
    """
    letter = LetterBuried(
        service=token_of(service),
        reason=reason[:_MOST_REASON],
        subject=subject,
        stream=stream,
        body=body[:BURIED_BYTES],
        **place,
    )
    cause = f"{stream} {place['sequence']}" if stream else f"{subject} {time.time_ns()}"
    cause += f" {letter.retries}" if letter.retries else ""
    return letter, derived_id(cause, letter.schema_name(), service)


def refusal(error: str, message: str, question: bytes) -> bytes:
    """Return a `Refused` with `error` and `message`, in the encoding of the `question`."""
    return encode_body(Refused(error=error, message=message), json_text=is_json(question))


def refusal_reason(answer: bytes) -> str | None:
    """Return the reason if an answer is a refusal, else None.

    Answers that have the field `accepted` have it first, so that a large answer of another kind
    need not be decoded.
    """
    if b"accepted" not in answer[:_HEAD_BYTES]:
        return None
    try:
        fields = unpack(answer)
    except SchemaError:
        return None
    if fields.get("accepted") is not False:
        return None
    return f"{fields.get('error', '')}: {fields.get('message', '')}"
