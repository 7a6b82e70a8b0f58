"""Uploads: files that are too large for a request, stored by requesters, expired after a day.

An object store like that of the artifacts (`artifacts`), bounded, on its own stream. A requester
may add files, but not read or list them. The server stores them under the name of the requester's
key, so nobody replaces another's. A file is named by its digest, so that it is sent once for all
requests within half a day; agents use it only if it has the checksum in the request.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mlscope.assets.artifacts import UPLOADED, Artifact, Artifacts, connect
from mlscope.assets.errors import RepositoryFailed
from mlscope.assets.partial import Progress
from mlscope.bus.access.rights import upload_of
from mlscope.bus.nats.log import StoredMessage, last_on
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.storing import MESSAGE_ID, store
from mlscope.bus.streams import STORES, UPLOADS

_TIME = "Nats-Time-Stamp"
_STORED_POLLS = 100
_POLL_S = 0.1
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}")
(KEPT_S,) = (object_store.ttl_s for object_store in STORES if object_store.name == UPLOADS)
"""Seconds after which an upload expires."""


@asynccontextmanager
async def connect_uploads(
    settings: NatsSettings, name: str, *, timeout_s: float = 30.0, inbox: str = ""
) -> AsyncIterator["Uploads"]:
    """Open the store of uploads on its own connection, with the key `name` of the `settings`.

    `timeout_s` bounds the wait for the server; `inbox` is the inbox prefix for answers, as for the
    bus. Raises Unreachable, NotPermitted.
    """
    async with connect(settings, name, timeout_s=timeout_s, inbox=inbox) as artifacts:
        yield Uploads.beside(artifacts)


def upload_name(path: Path) -> str:
    """Return the name of a file for `Uploads.put`: its sha256 and suffix. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{UPLOADED}{digest}{path.suffix if _ENDING.fullmatch(path.suffix) else ''}"


class Uploads(Artifacts):
    """The store of uploads. Raises the errors of the bus, StreamFull when it is full.

    Agents find a file by the name `uploads/KEY/FILE`; who sends it names it `uploads/FILE`, and the
    server adds the name of the sender's key. A server without accounts adds none.
    """

    @classmethod
    def beside(cls, artifacts: Artifacts) -> Self:
        """Return the uploads on the same connection."""
        return cls(artifacts.connection, UPLOADS)

    async def put(self, name: str, path: Path, progress: Progress | None = None) -> Artifact:
        """Store the file at `path` as `name`, unless it is there for at least another half day.

        Returns its description, with the name by which agents find it. `progress` is called with
        the bytes sent. Raises OSError, StreamFull, RepositoryFailed.
        """
        stored = await self._newest(name)
        if stored is not None and (stamp := stored.headers.get(_TIME)):
            age = datetime.now(UTC) - datetime.fromisoformat(stamp)
            existing = Artifact.read(stored.body)
            if existing is not None and age.total_seconds() < KEPT_S / 2:
                return _found_as(_name_in_store(stored), existing)
        artifact = await self._store_chunks(name, path, progress)
        body = artifact.encoded(UPLOADS)
        await store(self.connection, self._meta(name), body, headers={MESSAGE_ID: artifact.id})
        # Only the stored message says whose it is; a broker of several may answer too early.
        for _ in range(_STORED_POLLS):
            stored = await self._newest(name)
            if stored is not None and stored.body == body:
                return _found_as(_name_in_store(stored), artifact)
            await asyncio.sleep(_POLL_S)
        raise RepositoryFailed(name, "it was stored, but cannot be found")

    async def described(self, name: str) -> Artifact:
        """Return the description of an upload. Raises AssetMissing, ArtifactBroken."""
        return _found_as(name, await super().described(name))

    async def _newest(self, name: str) -> StoredMessage | None:
        return await last_on(self.connection, f"OBJ_{UPLOADS}", self._meta(name))

    def _meta(self, name: str) -> str:
        key, file = _key_and_file(name)
        subject = super()._meta(f"{UPLOADED}{file}")
        return upload_of(key, subject) if key else subject

    async def _purge(self, filter_subject: str, keep: int = 0) -> None:
        """Do nothing: requesters may not remove uploads, which expire by themselves."""


def _key_and_file(name: str) -> tuple[str, str]:
    """Return whose upload `name` is, '' where it does not say, and the file's name."""
    key, _, file = name.removeprefix(UPLOADED).rpartition("/")
    return key, file


def _name_in_store(stored: StoredMessage) -> str:
    """Return the name of the upload that a `stored` message describes, with that of its key."""
    *key, encoded = stored.subject.removeprefix(f"$O.{UPLOADS}.M.").split(".")
    _, file = _key_and_file(base64.urlsafe_b64decode(encoded).decode())
    return UPLOADED + "/".join((*key, file))


def _found_as(name: str, artifact: Artifact) -> Artifact:
    """Return an `artifact` with its `name` in the store, and its chunks as the store has them."""
    key, _ = _key_and_file(name)
    return replace(artifact, name=name, id=f"{key}.{artifact.id}" if key else artifact.id)
