"""Files that a person sends over HTTP for a model or dataset of a request."""

import asyncio
import hashlib
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mlscope.assets.artifacts import UPLOADED, Artifact
from services.gateway.errors import FileTooLarge, FileTooSlow, TooManyFiles, needing_room

MOST_AT_ONCE = 2
"""Files that are received at a time; each takes its size on the gateway's disk until it is kept."""
MOST_OF_SENDER = 8
"""Files that one sender may have under way: one is received, the others wait for it."""
GRACE_S = 60.0
LEAST_BYTES_PER_S = 64 * 1024
"""A file that comes more slowly, after its grace, is refused: two of them hold all turns."""
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}\Z")


class Store(Protocol):
    """What keeps files for a day, as `mlscope.assets.uploads` does."""

    async def put(self, name: str, path: Path) -> Artifact:
        """Store the file at `path` as `name`."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that came, at a path where it is until it is kept."""

    path: Path
    sha256: str
    size_bytes: int


@dataclass(slots=True)
class _Sender:
    """Who sends files: how many are under way, and the turn of the one that is received."""

    files: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class SentFiles:
    """Receives files of at most `most_bytes`; `connect` opens the store that keeps them."""

    connect: Callable[[], AbstractAsyncContextManager[Store]]
    most_bytes: int
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))
    _senders: dict[str, "_Sender"] = field(default_factory=dict)

    async def receive(self, name: str, chunks: AsyncIterator[bytes], sender: str) -> Artifact:
        """Keep a file and return where: under its digest and the ending of its `name`.

        `chunks` are its bytes, `sender` is who sends it. Raises FileTooLarge, FileTooSlow, NoRoom,
        TooManyFiles, BusError, OSError.
        """
        async with self.received(chunks, sender) as file:
            return await self.keep(file, name)

    @asynccontextmanager
    async def received(
        self, chunks: AsyncIterator[bytes], sender: str
    ) -> AsyncIterator[ReceivedFile]:
        """Lend the file whose bytes are `chunks`, and a turn of its `sender`.

        A sender has one turn at a time, so that a slow one leaves one to others. Raises
        FileTooLarge, FileTooSlow, NoRoom, TooManyFiles, OSError.
        """
        async with self._turn_of(sender), self._turns:
            began_s = time.monotonic()
            with needing_room(), tempfile.NamedTemporaryFile(prefix="mlscope-sent-") as file:
                digest, size_bytes = hashlib.sha256(), 0
                async for chunk in chunks:
                    size_bytes += len(chunk)
                    if size_bytes > self.most_bytes:
                        raise FileTooLarge(size_bytes, self.most_bytes)
                    elapsed_s = time.monotonic() - began_s
                    if elapsed_s > GRACE_S + size_bytes / LEAST_BYTES_PER_S:
                        raise FileTooSlow(size_bytes, elapsed_s)
                    digest.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
                file.flush()
                yield ReceivedFile(Path(file.name), digest.hexdigest(), size_bytes)

    @asynccontextmanager
    async def _turn_of(self, sender: str) -> AsyncIterator[None]:
        """Wait until a `sender` has no other turn; the cluster's own user needs not.

        Raises TooManyFiles.
        """
        if not sender:
            yield
            return
        own = self._senders.setdefault(sender, _Sender())
        if own.files >= MOST_OF_SENDER:
            raise TooManyFiles(own.files)
        own.files += 1
        try:
            async with own.turn:
                yield
        finally:
            own.files -= 1
            if not own.files:
                del self._senders[sender]

    async def keep(self, file: ReceivedFile, name: str) -> Artifact:
        """Keep a received `file` for a day, under its digest and the ending of `name`.

        Raises BusError, OSError.
        """
        ending = _ENDING.search(name)
        stored_name = f"{UPLOADED}{file.sha256}{ending[0] if ending else ''}"
        async with self.connect() as store:
            return await store.put(stored_name, file.path)
