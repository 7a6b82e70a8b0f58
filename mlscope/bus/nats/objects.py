"""Large payloads in NATS's own object-store layout, so that `nats object get` reads them too.

Chunks lie under `$O.<bucket>.C.<nuid>`, the description under `$O.<bucket>.M.<name, base64>`.
"""

import base64
import hashlib
import json
import secrets

from mlscope.bus.errors import NoSuchPayload, PayloadMismatch
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import MESSAGE_ID, last_on, read_on, store

_CHUNK_BYTES = 128 * 1024


class Objects:
    """One object store over one connection."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        """Use the store called `bucket`."""
        self._connection = connection
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    async def put(self, name: str, body: bytes) -> str:
        """Store a payload, replacing an older one of that name, and return its sha256.

        What is there already is not written again: somebody may be reading it.
        """
        digest = hashlib.sha256(body)
        written = f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}"
        older = await self._described(name)
        if older is not None and older.get("digest") == written and not older.get("deleted"):
            return digest.hexdigest()
        nuid = secrets.token_hex(11)
        chunks = [body[at : at + _CHUNK_BYTES] for at in range(0, len(body), _CHUNK_BYTES)]
        for number, chunk in enumerate(chunks):
            await self._store(self._chunks(nuid), chunk, {MESSAGE_ID: f"{nuid}.{number}"})
        described = {
            "name": name,
            "bucket": self._bucket,
            "nuid": nuid,
            "size": len(body),
            "chunks": len(chunks),
            "digest": written,
            "options": {"max_chunk_size": _CHUNK_BYTES},
        }
        headers = {MESSAGE_ID: nuid, "Nats-Rollup": "sub"}
        await self._store(self._meta(name), json.dumps(described).encode(), headers)
        if older is not None:
            await self._drop(str(older["nuid"]))
        return digest.hexdigest()

    async def get(self, name: str, sha256: str) -> bytes:
        """Return a payload. Raises NoSuchPayload, PayloadMismatch."""
        described = await self._described(name)
        if described is None or described.get("deleted"):
            raise NoSuchPayload(name)
        parts: list[bytes] = []
        after, more = 0, 1
        while more:
            found, more = await read_on(
                self._connection, self._stream, self._chunks(str(described["nuid"])), after
            )
            parts += [stored.body for stored in found]
            after = found[-1].sequence if found else after
            more = more if found else 0
        body = b"".join(parts)
        if (digest := hashlib.sha256(body).hexdigest()) != sha256:
            raise PayloadMismatch(name, sha256, digest)
        return body

    async def _described(self, name: str) -> dict[str, object] | None:
        stored = await last_on(self._connection, self._stream, self._meta(name))
        return None if stored is None else json.loads(stored.body)

    async def _store(self, subject: str, body: bytes, headers: dict[str, str]) -> None:
        await store(self._connection, subject, body, headers=headers)

    async def _drop(self, nuid: str) -> None:
        await self._connection.call(
            f"$JS.API.STREAM.PURGE.{self._stream}",
            {"filter": self._chunks(nuid)},
        )

    def _chunks(self, nuid: str) -> str:
        return f"$O.{self._bucket}.C.{nuid}"

    def _meta(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
