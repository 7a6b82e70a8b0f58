"""Uploads: files that are too large for a request, stored by requesters, expired after a day.

An object store like that of the artifacts (`artifacts`), bounded, on its own stream. A requester
may add files, but not read or list them; agents refuse one that replaces another's, whose digest
the requester knows. A file is named by its digest, so that it is sent once for all requests within
half a day; agents use it only if it has the checksum in the request.
"""

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mlscope.assets.artifacts import UPLOADED, Artifact, Artifacts, connect
from mlscope.assets.partial import Progress
from mlscope.bus.nats.log import last_on
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.storing import MESSAGE_ID, store
from mlscope.bus.streams import STORES, UPLOADS

_TIME = "Nats-Time-Stamp"
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}")
(KEPT_S,) = (object_store.ttl_s for object_store in STORES if object_store.name == UPLOADS)
"""Seconds after which an upload expires."""


@asynccontextmanager
async def connect_uploads(
    settings: NatsSettings, name: str, *, timeout_s: float = 30.0
) -> AsyncIterator["Uploads"]:
    """Open the store of uploads on its own connection, with the key `name` of the `settings`.

    `timeout_s` bounds the wait for the server. Raises Unreachable, NotPermitted.
    """
    async with connect(settings, name, timeout_s=timeout_s) as artifacts:
        yield Uploads.beside(artifacts)


def upload_name(path: Path) -> str:
    """Return the name of a file as an upload: its sha256 and its suffix. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{UPLOADED}{digest}{path.suffix if _ENDING.fullmatch(path.suffix) else ''}"


class Uploads(Artifacts):
    """The store of uploads. Raises the errors of the bus, StreamFull when it is full."""

    @classmethod
    def beside(cls, artifacts: Artifacts) -> Self:
        """Return the uploads on the same connection."""
        return cls(artifacts.connection, UPLOADS)

    async def put(self, name: str, path: Path, progress: Progress | None = None) -> Artifact:
        """Store the file at `path` as `name`, unless it is there for at least another half day.

        `progress` is called with the bytes sent. Raises OSError, StreamFull.
        """
        subject = self._meta(name)
        stored = await last_on(self.connection, f"OBJ_{UPLOADS}", subject)
        if stored is not None and (stamp := stored.headers.get(_TIME)):
            age = datetime.now(UTC) - datetime.fromisoformat(stamp)
            existing = Artifact.read(stored.body)
            if existing is not None and age.total_seconds() < KEPT_S / 2:
                return existing
        artifact = await self._store_chunks(name, path, progress)
        body = artifact.encoded(UPLOADS)
        await store(self.connection, subject, body, headers={MESSAGE_ID: artifact.id})
        return artifact

    async def _purge(self, filter_subject: str, keep: int = 0) -> None:
        """Do nothing: requesters may not remove uploads, which expire by themselves."""
