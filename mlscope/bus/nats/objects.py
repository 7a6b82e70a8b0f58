"""Large payloads in the layout of NATS's object store, so that `nats object get` reads them too.

Chunks are stored on `$O.<store>.C.<nuid>`, the description on `$O.<store>.M.<name, base64>`. The
nuid is the name in base64; in the store of batches the fact's subject precedes it, so that a
filter finds all objects of a run. Chunks are large: nearly every object is one message, which a
full store accepts or refuses as a whole.
"""

import asyncio
import base64
import hashlib
import json
import re
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
from mlscope.bus.nats.log import last_on, read_on
from mlscope.bus.nats.storing import EXPECTED, MESSAGE_ID, store
from mlscope.bus.streams import BATCHES, MAX_MESSAGE_BYTES, store_of, without_root

_CHUNK_BYTES = MAX_MESSAGE_BYTES // 2
_AGAIN = "~"
_FOLLOW_S = (0.02, 0.08, 0.4)
"""Pauses between the tries to read an object: of a cluster the nearest server answers, which may
follow the one that stored the object, and the fact that refers to it, by some milliseconds."""
_NUID = re.compile(r"[A-Za-z0-9_=~-]+(\.[A-Za-z0-9_=~-]+)*")

MAX_OBJECT_BYTES = 512 * 1024 * 1024
"""The largest object that is read into memory."""


def nuid_of(subject: str, name: str) -> str:
    """Return the subject of a payload's chunks, below `$O.<store>.C`."""
    token = _base64(name)
    return f"{without_root(subject)}.{token}" if store_of(subject) == BATCHES else token


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
        written = f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}"
        store_name = store_of(subject)
        older = await self._described(store_name, name)
        if older is not None and not older.get("deleted"):
            if older.get("digest") != written:
                raise Conflict(name, 0)
            return digest.hexdigest()
        chunks = [body[at : at + _CHUNK_BYTES] for at in range(0, len(body), _CHUNK_BYTES)]
        nuid = nuid_of(subject, name)
        try:
            try:
                await self._put_chunks(store_name, nuid, chunks)
            except Conflict:
                # An earlier try, or another publisher of the same payload, stored a chunk.
                if len(chunks) > 1:
                    nuid = f"{nuid}{_AGAIN}{secrets.token_hex(8)}"
                    await self._put_chunks(store_name, nuid, chunks)
            described = {
                "name": name,
                "bucket": store_name,
                "nuid": nuid,
                "size": len(body),
                "chunks": len(chunks),
                "digest": written,
                "options": {"max_chunk_size": _CHUNK_BYTES},
            }
            description = json.dumps(described).encode()
            await self._store(
                _meta(store_name, name), description, {MESSAGE_ID: secrets.token_hex(11)}
            )
        except StreamFull as error:
            raise PayloadsFull(subject, store_name) from error
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
        store_name = store_of(subject)
        described = await self._described(store_name, name)
        if described is None or described.get("deleted"):
            return None, b""
        parts: list[bytes] = []
        after, remaining = 0, 1
        while remaining:
            messages, remaining = await read_on(
                self._connection,
                _stream(store_name),
                _chunks(store_name, str(described["nuid"])),
                after,
            )
            parts += [stored.body for stored in messages]
            size_bytes = sum(map(len, parts))
            if size_bytes > MAX_OBJECT_BYTES:
                raise PayloadMismatch(name, sha256, f"of more than {MAX_OBJECT_BYTES} bytes")
            after = messages[-1].sequence if messages else after
            remaining = remaining if messages else 0
        return described.get("size", size_bytes), b"".join(parts)

    async def chunks_by_name(self, filter_subject: str) -> Mapping[str, list[str]]:
        """Return the payloads of batches on a filter: the subjects of the chunks by name.

        Empty for facts of the log, whose payloads are never purged.
        """
        if store_of(filter_subject) != BATCHES:
            return {}
        prefix = f"$O.{BATCHES}.C."
        info = await self._connection.call(
            self._connection.managing(f"STREAM.INFO.{_stream(BATCHES)}"),
            {"subjects_filter": prefix + without_root(filter_subject)},
        )
        names: dict[str, list[str]] = {}
        for subject in info["state"].get("subjects") or {}:
            token = subject.rpartition(".")[2].partition(_AGAIN)[0]
            try:
                name = base64.urlsafe_b64decode(token).decode()
            except ValueError:
                # An agent may name its chunks as it likes; no fact refers to these.
                name = ""
            names.setdefault(name, []).append(subject)
        return names

    async def drop(self, names: Iterable[str], chunks_by_name: Mapping[str, list[str]]) -> None:
        """Delete the payloads `names`, including the chunks left by failed tries.

        `chunks_by_name` is what the method of this name returned.
        """
        for name in set(names) & chunks_by_name.keys():
            for subject in (_meta(BATCHES, name), *chunks_by_name[name]):
                api = self._connection.managing(f"STREAM.PURGE.{_stream(BATCHES)}")
                await self._connection.call(api, {"filter": subject})

    async def _described(self, store_name: str, name: str) -> dict[str, object] | None:
        """Return the description of an object; None if there is none, or none that can be used.

        Agents write descriptions too: a wildcard in one would read what others stored.
        """
        stored = await last_on(self._connection, _stream(store_name), _meta(store_name, name))
        try:
            described = {} if stored is None else json.loads(stored.body)
        except (ValueError, RecursionError):
            described = {}
        is_usable = isinstance(described, dict) and _NUID.fullmatch(str(described.get("nuid", "")))
        return described if is_usable else None

    async def _store(self, subject: str, body: bytes, headers: dict[str, str]) -> int:
        return await store(self._connection, subject, body, headers=headers)


def _base64(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _stream(store_name: str) -> str:
    return f"OBJ_{store_name}"


def _chunks(store_name: str, nuid: str) -> str:
    return f"$O.{store_name}.C.{nuid}"


def _meta(store_name: str, name: str) -> str:
    return f"$O.{store_name}.M.{_base64(name)}"
