"""Large payloads in NATS's own object-store layout, so that `nats object get` reads them too.

Chunks lie under `$O.<store>.C.<nuid>`, the description under `$O.<store>.M.<name, base64>`. The
nuid is the name's base64, and in the store of batches the fact's subject before it: a run's
objects are found by a filter. Chunks are large, so that nearly every object is one message, which
a full store takes whole or not at all.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping

from mlscope.bus.errors import (
    Conflict,
    NoSuchPayload,
    PayloadMismatch,
    PayloadsFull,
    StreamFull,
)
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import EXPECTED, MESSAGE_ID, last_on, read_on, store
from mlscope.bus.streams import BATCHES, MAX_MESSAGE_BYTES, place_of, store_of

_CHUNK_BYTES = MAX_MESSAGE_BYTES // 2
_AGAIN = "~"


def nuid_of(subject: str, name: str) -> str:
    """Return where the chunks of a fact's payload lie below its store's `C`."""
    token = _base64(name)
    return f"{place_of(subject)}.{token}" if store_of(subject) == BATCHES else token


class Objects:
    """The object stores over one connection."""

    def __init__(self, connection: Connection) -> None:
        """Use `connection`."""
        self._connection = connection

    async def put(self, subject: str, name: str, body: bytes) -> str:
        """Store a payload and return its sha256; what is there already is not written again.

        Raises Conflict (the name is another payload's), PayloadsFull, Unreachable.
        """
        digest = hashlib.sha256(body)
        written = f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}"
        kept_in = store_of(subject)
        older = await self._described(kept_in, name)
        if older is not None and not older.get("deleted"):
            if older.get("digest") != written:
                raise Conflict(name, 0)
            return digest.hexdigest()
        chunks = [body[at : at + _CHUNK_BYTES] for at in range(0, len(body), _CHUNK_BYTES)]
        try:
            nuid = await self._put_chunks(kept_in, nuid_of(subject, name), chunks)
            described = {
                "name": name,
                "bucket": kept_in,
                "nuid": nuid,
                "size": len(body),
                "chunks": len(chunks),
                "digest": written,
                "options": {"max_chunk_size": _CHUNK_BYTES},
            }
            told = json.dumps(described).encode()
            await self._store(_meta(kept_in, name), told, {MESSAGE_ID: secrets.token_hex(11)})
        except StreamFull as error:
            raise PayloadsFull(subject, kept_in) from error
        return digest.hexdigest()

    async def _put_chunks(self, kept_in: str, nuid: str, chunks: list[bytes]) -> str:
        """Store chunks in a place that has none and return where; one whole chunk may be there."""
        try:
            await self._chain(kept_in, nuid, chunks)
        except Conflict:
            # An earlier try, or another publisher of the very same, came as far as a chunk.
            if len(chunks) > 1:
                nuid = f"{nuid}{_AGAIN}{secrets.token_hex(8)}"
                await self._chain(kept_in, nuid, chunks)
        return nuid

    async def _chain(self, kept_in: str, nuid: str, chunks: list[bytes]) -> None:
        last = 0
        for number, chunk in enumerate(chunks):
            headers = {MESSAGE_ID: f"{nuid}.{number}.{secrets.token_hex(8)}", EXPECTED: str(last)}
            last = await self._store(_chunks(kept_in, nuid), chunk, headers)

    async def get(self, subject: str, name: str, sha256: str) -> bytes:
        """Return a payload. Raises NoSuchPayload, PayloadMismatch."""
        kept_in = store_of(subject)
        described = await self._described(kept_in, name)
        if described is None or described.get("deleted"):
            raise NoSuchPayload(name)
        parts: list[bytes] = []
        after, more = 0, 1
        while more:
            found, more = await read_on(
                self._connection,
                _stream(kept_in),
                _chunks(kept_in, str(described["nuid"])),
                after,
            )
            parts += [stored.body for stored in found]
            after = found[-1].sequence if found else after
            more = more if found else 0
        body = b"".join(parts)
        if (digest := hashlib.sha256(body).hexdigest()) != sha256:
            raise PayloadMismatch(name, sha256, digest)
        return body

    async def held(self, filter_subject: str) -> Mapping[str, list[str]]:
        """Return the names of the objects of batches on a filter, each with its chunks' subjects.

        Facts that are kept have none to purge.
        """
        if store_of(filter_subject) != BATCHES:
            return {}
        prefix = f"$O.{BATCHES}.C."
        told = await self._connection.call(
            f"$JS.API.STREAM.INFO.{_stream(BATCHES)}",
            {"subjects_filter": prefix + place_of(filter_subject)},
        )
        names: dict[str, list[str]] = {}
        for subject in told["state"].get("subjects") or {}:
            token = subject.rpartition(".")[2].partition(_AGAIN)[0]
            name = base64.urlsafe_b64decode(token).decode()
            names.setdefault(name, []).append(subject)
        return names

    async def drop(self, names: Iterable[str], held: Mapping[str, list[str]]) -> None:
        """Delete objects of batches, with what tries that failed have left of them."""
        for name in set(names) & held.keys():
            for subject in (_meta(BATCHES, name), *held[name]):
                api = f"$JS.API.STREAM.PURGE.{_stream(BATCHES)}"
                await self._connection.call(api, {"filter": subject})

    async def _described(self, kept_in: str, name: str) -> dict[str, object] | None:
        stored = await last_on(self._connection, _stream(kept_in), _meta(kept_in, name))
        return None if stored is None else json.loads(stored.body)

    async def _store(self, subject: str, body: bytes, headers: dict[str, str]) -> int:
        return await store(self._connection, subject, body, headers=headers)


def _base64(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _stream(kept_in: str) -> str:
    return f"OBJ_{kept_in}"


def _chunks(kept_in: str, nuid: str) -> str:
    return f"$O.{kept_in}.C.{nuid}"


def _meta(kept_in: str, name: str) -> str:
    return f"$O.{kept_in}.M.{_base64(name)}"
