"""The artifact repository: objects in a NATS JetStream object store, read in large batches.

The layout is that of NATS's object store, so `nats object` reads and lists the same objects.
Chunks are read by batched Direct Get, like the log: some megabytes for one request, no consumer,
while a thread hashes and writes the previous batch. Transfers use a connection of their own, so
that no query waits behind megabytes of data.
"""

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import logging
import re
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mlscope.assets.addresses import ArtifactSource, parse
from mlscope.assets.errors import ArtifactBroken, AssetMissing, BadAddress, RepositoryFailed
from mlscope.assets.partial import Partial, Progress
from mlscope.assets.sweeping import ABANDONED_S, abandoned, stored_chunks
from mlscope.bus.errors import BusError
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import StoredMessage, last_on, read_on
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.storing import MESSAGE_ID, store
from mlscope.bus.streams import ARTIFACTS

BUCKET = ARTIFACTS
CHUNK_BYTES = 256 << 10
UPLOADED = "uploads/"
"""The prefix of the names of uploads, which have their own store (`uploads`)."""
_log = logging.getLogger(__name__)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNREADABLE = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What reading a description raises that somebody made up."""
_WINDOW = 8
_TRIES = 3

T = TypeVar("T")
Take = Callable[[Sequence[bytes]], None]
"""Receives the next chunks, in order, in a thread."""
Seal = Callable[[int, bytes], bytes]
"""Returns a chunk, given with its number, as it is stored."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The description of one object; `id` is the id of its chunks."""

    name: str
    sha256: str
    size_bytes: int
    chunks: int
    id: str

    @classmethod
    def read(cls, body: bytes) -> "Artifact | None":
        """Parse a stored description; None for a removed object. Raises ArtifactBroken."""
        try:
            fields = json.loads(body)
            if fields.get("deleted"):
                return None
            digest = base64.urlsafe_b64decode(str(fields["digest"]).removeprefix("SHA-256="))
            return cls(
                str(fields["name"]),
                digest.hex(),
                int(fields["size"]),
                int(fields["chunks"]),
                _token(str(fields["nuid"])),
            )
        except _UNREADABLE as error:
            raise ArtifactBroken("description", f"can't be read: {error!r}") from error

    def encoded(self, bucket: str) -> bytes:
        """Return the description in the encoding of NATS's clients."""
        digest = base64.urlsafe_b64encode(bytes.fromhex(self.sha256)).decode()
        fields = {
            "name": self.name,
            "bucket": bucket,
            "nuid": self.id,
            "size": self.size_bytes,
            "chunks": self.chunks,
            "digest": f"SHA-256={digest}",
            "options": {"max_chunk_size": CHUNK_BYTES},
        }
        return json.dumps(fields).encode()


def _token(chunks_id: str) -> str:
    """Return an id of chunks, which is one token of a subject. Raises ValueError."""
    if not _ID.fullmatch(chunks_id):
        raise ValueError(f"nuid {chunks_id[:80]!r} is no id of chunks")
    return chunks_id


@asynccontextmanager
async def connect(
    settings: NatsSettings, name: str, *, timeout_s: float = 30.0, inbox: str = ""
) -> AsyncIterator["Artifacts"]:
    """Open the repository on its own connection, with the key `name` of the `settings`.

    `timeout_s` bounds the wait for the server; `inbox` is the inbox prefix for answers, as for the
    bus. Raises Unreachable, NotPermitted.
    """
    connection = Connection(settings, name, inbox=inbox)
    await connection.open(timeout_s)
    try:
        yield Artifacts(connection)
    finally:
        await connection.close()


class Artifacts:
    """The artifacts in one object store. Raises the errors of the bus unchanged."""

    _missing = "the repository has nothing of this name"

    def __init__(self, connection: Connection, bucket: str = ARTIFACTS) -> None:
        """Use an open connection; `mlscope provision` made the store `bucket`."""
        self.connection = connection
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    async def described(self, name: str) -> Artifact:
        """Return the description of an artifact. Raises AssetMissing, ArtifactBroken."""
        artifact = await self._read_description(name)
        if artifact is None:
            raise AssetMissing(f"artifact://{name}", self._missing)
        return artifact

    async def ls(self) -> list[Artifact]:
        """Return every artifact, sorted by name. Raises ArtifactBroken."""
        newest: dict[str, Artifact | None] = {}
        async for batch in self._batches(f"$O.{self._bucket}.M.>"):
            newest |= {stored.subject: Artifact.read(stored.body) for stored in batch}
        current = [artifact for artifact in newest.values() if artifact is not None]
        return sorted(current, key=lambda artifact: artifact.name)

    async def put(self, name: str, path: Path, progress: Progress | None = None) -> Artifact:
        """Store the file at `path` as the artifact `name`, replacing an older one.

        Readers see the older one until the new one is complete. `progress` is called with the
        bytes sent. Raises BadAddress, OSError.
        """
        if parse(f"artifact://{name}") != ArtifactSource(name) or name.startswith(UPLOADED):
            raise BadAddress(
                f"artifact://{name}", "name", f"that of an artifact, not below {UPLOADED}"
            )
        try:
            if dead := await self.sweep():
                _log.info("removed the chunks of %d killed uploads", len(dead))
        except (BusError, ArtifactBroken) as error:
            _log.warning("chunks of killed uploads stay for now: %s", error)
        older = await self._read_description(name)
        artifact = await self._store_chunks(name, path, progress)
        body = artifact.encoded(self._bucket)
        await store(self.connection, self._meta(name), body, headers={MESSAGE_ID: artifact.id})
        await self._purge(self._meta(name), keep=1)
        if older is not None:
            await self._purge(self._chunks(older.id))
        return artifact

    async def rm(self, name: str) -> Artifact:
        """Remove an artifact and return its description. Raises AssetMissing."""
        artifact = await self.described(name)
        await self._purge(self._meta(name))
        await self._purge(self._chunks(artifact.id))
        return artifact

    async def sweep(self, abandoned_s: float = ABANDONED_S) -> list[str]:
        """Remove the chunks of killed uploads and return their ids.

        These are chunks that no artifact refers to, without a new one for `abandoned_s` seconds.
        Raises ArtifactBroken if a description can't be read, because it may refer to some of them.
        """
        stored_ids, now = await stored_chunks(self.connection, self._bucket)
        unreferenced = stored_ids - {artifact.id for artifact in await self.ls()}
        dead = await abandoned(self.connection, self._bucket, unreferenced, abandoned_s, now)
        for chunks_id in dead:
            await self._purge(self._chunks(chunks_id))
        return dead

    async def read(self, artifact: Artifact, take: Take, progress: Progress | None = None) -> None:
        """Pass the chunks of `artifact` to `take`, in order, and call `progress` with the bytes.

        Raises ArtifactBroken if bytes are missing or others; the caller compares the digest.
        """
        done_bytes = 0
        taking: asyncio.Future[None] | None = None
        try:
            async for batch in self._batches(self._chunks(artifact.id)):
                if taking is not None:
                    await taking
                blocks = [stored.body for stored in batch]
                done_bytes += sum(map(len, blocks))
                taking = asyncio.ensure_future(asyncio.to_thread(take, blocks))
                if progress is not None:
                    progress(done_bytes, artifact.size_bytes)
        finally:
            if taking is not None:
                await taking
        if done_bytes != artifact.size_bytes:
            reason = f"{done_bytes} of {artifact.size_bytes} bytes; it was replaced or removed"
            raise ArtifactBroken(artifact.name, reason)

    async def _store_chunks(
        self, name: str, path: Path, progress: Progress | None, seal: Seal = lambda _, chunk: chunk
    ) -> Artifact:
        """Store a file's chunks; start again if a server restart stored them out of order."""
        for _ in range(_TRIES):
            chunks_id = secrets.token_hex(11)
            try:
                sent = await self._send_chunks(path, chunks_id, progress, seal)
            except BaseException:
                with contextlib.suppress(BusError):
                    await self._purge(self._chunks(chunks_id))
                raise
            places, sha256, size_bytes = sent
            if places == sorted(places):
                return Artifact(name, sha256, size_bytes, len(places), chunks_id)
            await self._purge(self._chunks(chunks_id))
        raise RepositoryFailed(name, "its chunks were repeatedly stored out of order")

    async def _send_chunks(
        self, path: Path, chunks_id: str, progress: Progress | None, seal: Seal
    ) -> tuple[list[int], str, int]:
        """Send a file's chunks, several in flight; return their sequences, the digest and size.

        `seal` returns a chunk as it is stored.
        """
        digest, size_bytes, sending = hashlib.sha256(), 0, list[asyncio.Task[int]]()
        free, failed = asyncio.Semaphore(_WINDOW), asyncio.Event()
        loop = asyncio.get_running_loop()
        total_bytes = (await asyncio.to_thread(path.stat)).st_size

        def read_chunks() -> Iterator[bytes]:
            with path.open("rb") as file:
                for number in itertools.count():
                    if not (chunk := file.read(CHUNK_BYTES)):
                        break
                    stored = seal(number, chunk)
                    digest.update(stored)
                    yield stored

        chunks = read_chunks()

        def ended(task: asyncio.Task[int]) -> None:
            free.release()
            if task.cancelled() or task.exception() is not None:
                failed.set()

        try:
            while chunk := await asyncio.to_thread(next, chunks, b""):
                await free.acquire()
                if failed.is_set():
                    break
                headers = {MESSAGE_ID: f"{chunks_id}.{len(sending)}"}
                sent = store(self.connection, self._chunks(chunks_id), chunk, headers=headers)
                sending.append(loop.create_task(sent))
                sending[-1].add_done_callback(ended)
                size_bytes += len(chunk)
                if progress is not None:
                    progress(min(size_bytes, total_bytes), total_bytes)
            # Wait for all: a chunk still in flight would be stored after the purge.
            await asyncio.gather(*sending, return_exceptions=True)
        finally:
            for task in sending:
                task.cancel()
        return [task.result() for task in sending], digest.hexdigest(), size_bytes

    async def _batches(self, filter_subject: str) -> AsyncIterator[list[StoredMessage]]:
        """Yield the messages on a filter in batches; read the next while one is processed."""
        after, remaining = 0, 1
        batch, remaining = await self._next(filter_subject, after)
        while batch:
            following = None
            if remaining:
                following = asyncio.ensure_future(self._next(filter_subject, batch[-1].sequence))
            try:
                yield batch
                batch, remaining = await following if following is not None else ([], 0)
            finally:
                if following is not None:
                    following.cancel()

    async def _next(self, filter_subject: str, after: int) -> tuple[list[StoredMessage], int]:
        return await read_on(self.connection, self._stream, filter_subject, after)

    async def _read_description(self, name: str) -> Artifact | None:
        stored = await last_on(self.connection, self._stream, self._meta(name))
        return None if stored is None else Artifact.read(stored.body)

    async def _purge(self, filter_subject: str, keep: int = 0) -> None:
        request: Mapping[str, Any] = {"filter": filter_subject, "keep": keep}
        api = self.connection.managing(f"STREAM.PURGE.{self._stream}")
        await self.connection.call(api, request)

    def _chunks(self, chunks_id: str) -> str:
        return f"$O.{self._bucket}.C.{chunks_id}"

    def _meta(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


class ThreadedRepository:
    """The repository for threads: `fetching.Repository` over the event loop it is made in.

    An artifact whose name begins with `UPLOADED` is read from `uploads`, if they are given.
    """

    def __init__(self, artifacts: Artifacts, uploads: Artifacts | None = None) -> None:
        self._artifacts, self._uploads = artifacts, uploads
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def sha256_of(self, name: str) -> str:
        """Return an artifact's sha256. Raises AssetMissing, RepositoryFailed."""
        return self._run(name, lambda: self._store(name).described(name)).sha256

    def read(self, name: str, partial: Partial, progress: Progress) -> None:
        """Write the artifact `name` to `partial`, reporting `progress`.

        Raises AssetMissing, ArtifactBroken, RepositoryFailed.
        """

        async def reading() -> None:
            artifact = await self._store(name).described(name)
            partial.restart()
            partial.reserve(artifact.size_bytes)
            await self._store(name).read(artifact, partial.write, progress)

        self._run(name, reading)

    def _store(self, name: str) -> Artifacts:
        if self._uploads is not None and name.startswith(UPLOADED):
            return self._uploads
        return self._artifacts

    def _run(self, name: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        assert threading.get_ident() != self._thread, "a call in the event loop waits for ever"
        try:
            return asyncio.run_coroutine_threadsafe(call(), self._loop).result()
        except BusError as error:
            raise RepositoryFailed(name, str(error)) from error
