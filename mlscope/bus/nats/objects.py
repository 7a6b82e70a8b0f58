"""Large payloads as objects: chunks, and a description that leads to them.

Chunks are stored on `$O.<store>.C.<nuid>`, the description on `$O.<store>.M.<name, base64>`. The
place says whose a payload is, so that the server's permissions keep others from it: a description
of an agent is on `$O.<store>.M.<agent>.<name, base64>`. The nuid is the name in base64, in the
store of batches after the fact's subject, so that a filter finds all objects of a run, and in the
store of other facts after the agent. Payloads of services, which have no agent, are in the layout
of NATS's object store, and `nats object get` reads them.

Releases before 0.2 stored all descriptions, and all chunks but those of batches, in the places of
services. Agents can no longer write there, so what lies there is read and purged for them, too.

Chunks are large: nearly every object is one message, which a full store accepts or refuses as a
whole.
"""

import asyncio
import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlscope.bus.errors import (
    Conflict,
    NoSuchPayload,
    PayloadMismatch,
    PayloadsFull,
    StreamFull,
    SubjectTooLong,
)
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import last_on, read_on
from mlscope.bus.nats.storing import EXPECTED, MESSAGE_ID, store
from mlscope.bus.streams import BATCHES, MAX_MESSAGE_BYTES, store_of, without_root
from schemas.subjects import ROOT, agent_of

_CHUNK_BYTES = MAX_MESSAGE_BYTES // 2
_AGAIN = "~"
_FOLLOW_S = (0.02, 0.08, 0.4)
"""Pauses between the tries to read an object: of a cluster the nearest server answers, which may
follow the one that stored the object, and the fact that refers to it, by some milliseconds."""
_TRY = re.compile(rf"({_AGAIN}[0-9a-f]+)?")

MAX_OBJECT_BYTES = 512 * 1024 * 1024
"""The largest object that is read into memory."""

Payload = tuple[str, str]
"""A payload in the store of batches: the subject of its fact, and its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a payload is in its store: the subject of its description, and what its nuid is.

    A further try to store the chunks has a nuid that goes on with `~` and digits.
    """

    store: str
    description: str
    nuid: str

    @property
    def stream(self) -> str:
        """The stream of the store."""
        return _stream(self.store)

    def has(self, nuid: object) -> bool:
        """Tell whether chunks at `nuid` may be this payload's.

        Agents write descriptions too: one must not lead to what others stored, nor to everything.
        """
        return (
            isinstance(nuid, str)
            and nuid.startswith(self.nuid)
            and _TRY.fullmatch(nuid.removeprefix(self.nuid)) is not None
        )


def place_of(subject: str, name: str) -> Place:
    """Return the place of the payload `name` of a fact on `subject`."""
    agent, older = agent_of(subject), _older_place_of(subject, name)
    if not agent:
        return older
    token = _base64(name)
    nuid = older.nuid if older.store == BATCHES else f"{agent}.{token}"
    return Place(older.store, f"$O.{older.store}.M.{agent}.{token}", nuid)


def _older_place_of(subject: str, name: str) -> Place:
    """Return the place as releases before 0.2 chose it for every fact: that of a service's."""
    store_name, token = store_of(subject), _base64(name)
    nuid = f"{without_root(subject)}.{token}" if store_name == BATCHES else token
    return Place(store_name, f"$O.{store_name}.M.{token}", nuid)


class Objects:
    """The object stores over one connection."""

    def __init__(self, connection: Connection) -> None:
        """Use an open connection."""
        self._connection = connection

    async def put(self, subject: str, name: str, body: bytes) -> str:
        """Store `body` as the payload `name` of a fact on `subject`, and return its sha256.

        A payload that exists is not written again. Raises Conflict (another payload has the name),
        PayloadsFull, Unreachable.
        """
        digest = hashlib.sha256(body)
        digest_text = f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}"
        place = place_of(subject, name)
        existing = await self._described(place)
        if existing is not None:
            if existing.get("digest") != digest_text:
                raise Conflict(name, 0)
            return digest.hexdigest()
        chunks = [body[at : at + _CHUNK_BYTES] for at in range(0, len(body), _CHUNK_BYTES)]
        nuid = place.nuid
        try:
            try:
                await self._put_chunks(place.store, nuid, chunks)
            except Conflict:
                # An earlier try, or another publisher of the same payload, stored a chunk.
                if len(chunks) > 1:
                    nuid = f"{nuid}{_AGAIN}{secrets.token_hex(8)}"
                    await self._put_chunks(place.store, nuid, chunks)
            described = {
                "name": name,
                "bucket": place.store,
                "nuid": nuid,
                "size": len(body),
                "chunks": len(chunks),
                "digest": digest_text,
                "options": {"max_chunk_size": _CHUNK_BYTES},
            }
            description = json.dumps(described).encode()
            await self._store(place.description, description, {MESSAGE_ID: secrets.token_hex(11)})
        except StreamFull as error:
            raise PayloadsFull(subject, place.store) from error
        return digest.hexdigest()

    async def _put_chunks(self, store_name: str, nuid: str, chunks: list[bytes]) -> None:
        """Store chunks on a subject that has none yet. Raises Conflict if it has some."""
        last = 0
        for number, chunk in enumerate(chunks):
            headers = {MESSAGE_ID: f"{nuid}.{number}.{secrets.token_hex(8)}", EXPECTED: str(last)}
            last = await self._store(_chunks(store_name, nuid), chunk, headers)

    async def get(self, subject: str, name: str, sha256: str) -> bytes:
        """Return the payload `name` of a fact on `subject`, checked against `sha256` (hex).

        Raises NoSuchPayload, PayloadMismatch.
        """
        is_cluster = len(self._connection.client.servers) > 1
        for pause_s in _FOLLOW_S if is_cluster else ():
            size_bytes, body = await self._read(subject, name, sha256)
            if size_bytes == len(body):
                break
            await asyncio.sleep(pause_s)
        else:
            size_bytes, body = await self._read(subject, name, sha256)
        if size_bytes is None:
            raise NoSuchPayload(name)
        if (digest := hashlib.sha256(body).hexdigest()) != sha256:
            raise PayloadMismatch(name, sha256, digest)
        return body

    async def _read(self, subject: str, name: str, sha256: str) -> tuple[object, bytes]:
        """Return the size that an object is to have, None without one, and what there is of it.

        Raises PayloadMismatch for an object that is too large.
        """
        place = place_of(subject, name)
        described = await self._described(place)
        older = _older_place_of(subject, name)
        if described is None and place != older:
            described = await self._described(older)
        if described is None:
            return None, b""
        parts: list[bytes] = []
        after, remaining = 0, 1
        while remaining:
            messages, remaining = await read_on(
                self._connection,
                place.stream,
                _chunks(place.store, str(described["nuid"])),
                after,
            )
            parts += [stored.body for stored in messages]
            size_bytes = sum(map(len, parts))
            if size_bytes > MAX_OBJECT_BYTES:
                raise PayloadMismatch(name, sha256, f"of more than {MAX_OBJECT_BYTES} bytes")
            after = messages[-1].sequence if messages else after
            remaining = remaining if messages else 0
        return described.get("size", size_bytes), b"".join(parts)

    async def chunks_by_payload(self, filter_subject: str) -> Mapping[Payload, list[str]]:
        """Return the payloads of batches on a filter, each with the subjects of its chunks.

        Empty for facts of the log, whose payloads are never purged.
        """
        if store_of(filter_subject) != BATCHES:
            return {}
        prefix = _chunks(BATCHES, "")
        info = await self._connection.call(
            self._connection.managing(f"STREAM.INFO.{_stream(BATCHES)}"),
            {"subjects_filter": prefix + without_root(filter_subject)},
        )
        payloads: dict[Payload, list[str]] = {}
        for subject in info["state"].get("subjects") or {}:
            fact, _, token = subject.removeprefix(prefix).rpartition(".")
            try:
                name = base64.urlsafe_b64decode(token.partition(_AGAIN)[0]).decode()
            except ValueError:
                # An agent may name its chunks as it likes; no fact refers to these.
                name = ""
            payloads.setdefault((f"{ROOT}.{fact}", name), []).append(subject)
        return payloads

    async def drop(
        self, payloads: Iterable[Payload], chunks_by_payload: Mapping[Payload, list[str]]
    ) -> None:
        """Delete `payloads` of batches, including the chunks left by failed tries.

        `chunks_by_payload` is what the method of this name returned; payloads without chunks there
        have no effect.
        """
        api = self._connection.managing(f"STREAM.PURGE.{_stream(BATCHES)}")
        for payload in set(payloads) & chunks_by_payload.keys():
            descriptions = await self._descriptions_of(*payload)
            for subject in (*descriptions, *chunks_by_payload[payload]):
                await self._connection.call(api, {"filter": subject})

    async def _descriptions_of(self, subject: str, name: str) -> list[str]:
        """Return where the payload `name` of a fact on `subject` has, or may have, descriptions.

        In the older place another's payload may have the name, since an agent names its chunks as
        it likes: a description there must be one of this payload.
        """
        if not name:
            return []
        place, older = place_of(subject, name), _older_place_of(subject, name)
        descriptions = {place.description} - {older.description}
        if await self._described(older) is not None:
            descriptions.add(older.description)
        return sorted(descriptions)

    async def _described(self, place: Place) -> dict[str, object] | None:
        """Return the description in a place; None without one, or for one that can't be used."""
        try:
            stored = await last_on(self._connection, place.stream, place.description)
        except SubjectTooLong:
            # Agents that share a key choose their names, and so what a fact's reader would ask.
            stored = None
        try:
            described = {} if stored is None else json.loads(stored.body)
        except (ValueError, RecursionError):
            described = {}
        is_usable = isinstance(described, dict) and place.has(described.get("nuid"))
        return described if is_usable and not described.get("deleted") else None

    async def _store(self, subject: str, body: bytes, headers: dict[str, str]) -> int:
        return await store(self._connection, subject, body, headers=headers)


def _base64(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _stream(store_name: str) -> str:
    return f"OBJ_{store_name}"


def _chunks(store_name: str, nuid: str) -> str:
    return f"$O.{store_name}.C.{nuid}"
