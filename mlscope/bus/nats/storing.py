"""Publishing to the log over JetStream: guarded by what is expected, and idempotent."""

import hashlib
import json
from collections.abc import Mapping

from mlscope.bus.errors import (
    BusError,
    Conflict,
    NoAnswer,
    NotProvisioned,
    ServerRefused,
    StreamFull,
    Unreachable,
)
from mlscope.bus.nats.connection import Connection

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_ON = "Nats-Expected-Last-Subject-Sequence-Subject"

_WRONG_LAST_SEQUENCE = (10071, 10164)
_STORE_FAILED = 10077
_NO_RESOURCES = (10023, 10047)


def message_id(seed: str | None, fact_id: str) -> str:
    """Return the `Nats-Msg-Id` of the fact `fact_id` as the holder of the key `seed` publishes it.

    All instances of a service share a key, and so the id. Who lacks the key cannot foresee it: ids
    of facts derive from their causes, which others know. Without keys it is the fact's id itself.
    """
    if seed is None:
        return fact_id
    key = hashlib.blake2b(seed.encode(), digest_size=32).digest()
    return hashlib.blake2b(fact_id.encode(), key=key, digest_size=16).hexdigest()


async def store(
    connection: Connection,
    subject: str,
    body: bytes,
    *,
    headers: Mapping[str, str],
) -> int:
    """Store `body` on `subject` over `connection` and return its sequence in the stream.

    Retried while the server is away. `headers` may hold a message id and a guard.
    Raises Conflict (the guard does not hold), StreamFull, NotProvisioned, NotPermitted,
    Unreachable, ServerRefused.
    """

    async def once() -> int:
        answer = json.loads((await connection.request(subject, body, headers=headers)).data)
        if "error" in answer:
            raise _translated(subject, answer["error"], headers)
        return int(answer["seq"])

    try:
        return await connection.patiently(once)
    except NoAnswer as error:
        raise NotProvisioned(f"a stream for {subject}") from error


def _translated(subject: str, error: Mapping[str, object], headers: Mapping[str, str]) -> BusError:
    refused = ServerRefused.of(subject, error)
    if refused.error in _WRONG_LAST_SEQUENCE:
        # "wrong last sequence: 17"; some servers leave the number out.
        last_word = refused.description.rpartition(" ")[2]
        actual = int(last_word) if last_word.isdecimal() else 0
        return Conflict(headers.get(EXPECTED_ON, subject), int(headers.get(EXPECTED, 0)), actual)
    is_limit = refused.error == _STORE_FAILED and "maximum" in refused.description
    if is_limit or refused.error in _NO_RESOURCES:
        return StreamFull(subject)
    if refused.code == 503 or refused.is_passing:
        return Unreachable(str(refused))
    return refused
