"""Uploads: files that requests are too small for, put by whoever asks and gone after a day.

The same object store as the artifacts' (`artifacts`), bounded, on its own stream: a requester may
add to it, and neither read, list nor remove. A file is named by its digest, so that it is sent
once for all requests of half a day, and agents take it only when it has the checksum that the
request says.
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
from mlscope.bus.nats.log import MESSAGE_ID, last_on, store
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.streams import STORES, UPLOADS

_TIME = "Nats-Time-Stamp"
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}")
(KEPT_S,) = (each.ttl_s for each in STORES if each.name == UPLOADS)
"""How long an upload stays."""


@asynccontextmanager
async def connect_uploads(
    settings: NatsSettings, name: str, *, timeout_s: float = 30.0
) -> AsyncIterator["Uploads"]:
    """Open the store on a connection of its own. Raises Unreachable, NotPermitted."""
    async with connect(settings, name, timeout_s=timeout_s) as artifacts:
        yield Uploads.beside(artifacts)


def upload_name(path: Path) -> str:
    """Return what a file is called as an upload: its sha256 and its ending. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{UPLOADED}{digest}{path.suffix if _ENDING.fullmatch(path.suffix) else ''}"


class Uploads(Artifacts):
    """The uploads; what the bus raises is raised as it is, StreamFull where there is no room."""

    @classmethod
    def beside(cls, artifacts: Artifacts) -> Self:
        """Return the uploads on the same connection."""
        return cls(artifacts.connection, UPLOADS)

    async def put(self, name: str, path: Path, progress: Progress | None = None) -> Artifact:
        """Store a file, unless it is there for half a day yet. Raises OSError, StreamFull."""
        subject = self._meta(name)
        found = await last_on(self.connection, f"OBJ_{UPLOADS}", subject)
        if found is not None and _is_recent(found.headers.get(_TIME, "")):
            known = Artifact.read(found.body)
            if known is not None:
                return known
        artifact = await self._written(name, path, progress)
        body = artifact.written(UPLOADS)
        await store(self.connection, subject, body, headers={MESSAGE_ID: artifact.id})
        return artifact

    async def _purge(self, filter_subject: str, keep: int = 0) -> None:
        """Leave it: nobody may remove anything here, and its day ends by itself."""


def _is_recent(stamp: str) -> bool:
    """Tell whether a time of the server's (RFC 3339) is less than half a stay ago, by our clock."""
    if not stamp:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(stamp)
    return age.total_seconds() < KEPT_S / 2
