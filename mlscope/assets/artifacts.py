"""The artifact repository: objects of a NATS JetStream object store, read in large batches.

The layout is NATS's own object store's, so `nats object` reads and lists the same. Chunks are had
by batched Direct Get, as the log is: some megabytes for one request and no consumer, while the
batch before is hashed and written in a thread. Transfers take a connection of their own, so that
no query waits behind megabytes.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
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
from mlscope.assets.sweeping import ABANDONED_S, abandoned, held_chunks
from mlscope.bus.errors import BusError
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import MESSAGE_ID, Stored, last_on, read_on, store
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.streams import ARTIFACTS

BUCKET = ARTIFACTS
CHUNK_BYTES = 256 << 10
UPLOADED = "uploads/"
"""How names of uploads begin, which lie in a store of their own (`uploads`)."""
_log = logging.getLogger(__name__)
_WINDOW = 8
_TRIES = 3

T = TypeVar("T")
Take = Callable[[Sequence[bytes]], None]
"""Takes the next chunks, in order, in a thread."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One object: `id` names its chunks."""

    name: str
    sha256: str
    size_bytes: int
    chunks: int
    id: str

    @classmethod
    def read(cls, body: bytes) -> "Artifact | None":
        """Return what a description says; None of a removed object. Raises ArtifactBroken."""
        try:
            said = json.loads(body)
            if said.get("deleted"):
                return None
            digest = base64.urlsafe_b64decode(str(said["digest"]).removeprefix("SHA-256="))
            return cls(
                str(said["name"]),
                digest.hex(),
                int(said["size"]),
                int(said["chunks"]),
                str(said["nuid"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactBroken("description", f"can't be read: {error!r}") from error

    def written(self, bucket: str) -> bytes:
        """Return the description as NATS's clients write it."""
        digest = base64.urlsafe_b64encode(bytes.fromhex(self.sha256)).decode()
        said = {
            "name": self.name,
            "bucket": bucket,
            "nuid": self.id,
            "size": self.size_bytes,
            "chunks": self.chunks,
            "digest": f"SHA-256={digest}",
            "options": {"max_chunk_size": CHUNK_BYTES},
        }
        return json.dumps(said).encode()


@asynccontextmanager
async def connect(
    settings: NatsSettings, name: str, *, timeout_s: float = 30.0, inbox: str = ""
) -> AsyncIterator["Artifacts"]:
    """Open the repository under a service's name, on a connection of its own.

    `inbox` narrows where answers come, as for the bus. Raises Unreachable,
    NotPermitted.
    """
    connection = Connection(settings, name, inbox=inbox)
    await connection.open(timeout_s)
    try:
        yield Artifacts(connection)
    finally:
        await connection.close()


class Artifacts:
    """The artifacts of one object store. What the bus raises is raised as it is."""

    def __init__(self, connection: Connection, bucket: str = ARTIFACTS) -> None:
        """Use an open connection; `bucket` was made by `mlscope provision`."""
        self.connection = connection
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    async def described(self, name: str) -> Artifact:
        """Return what is known of an artifact. Raises AssetMissing, ArtifactBroken."""
        found = await self._found(name)
        if found is None:
            raise AssetMissing(f"artifact://{name}", "the repository has none of this name")
        return found

    async def ls(self) -> list[Artifact]:
        """Return every artifact, by name. Raises ArtifactBroken."""
        newest: dict[str, Artifact | None] = {}
        async for found in self._batches(f"$O.{self._bucket}.M.>"):
            newest |= {stored.subject: Artifact.read(stored.body) for stored in found}
        there = [artifact for artifact in newest.values() if artifact is not None]
        return sorted(there, key=lambda artifact: artifact.name)

    async def put(self, name: str, path: Path, progress: Progress | None = None) -> Artifact:
        """Store a file under a name, in place of an older one. Raises BadAddress, OSError.

        Readers see the older one until all of the new one is there.
        """
        self._check(name)
        await self._sweep_quietly()
        older = await self._found(name)
        artifact = await self._written(name, path, progress)
        body = artifact.written(self._bucket)
        await store(self.connection, self._meta(name), body, headers={MESSAGE_ID: artifact.id})
        await self._purge(self._meta(name), keep=1)
        if older is not None:
            await self._purge(self._chunks(older.id))
        return artifact

    def _check(self, name: str) -> None:
        """Raise BadAddress for what is no artifact's name."""
        if parse(f"artifact://{name}") != ArtifactSource(name) or name.startswith(UPLOADED):
            raise BadAddress(f"artifact://{name}", "name", f"an artifact's, not below {UPLOADED}")

    async def rm(self, name: str) -> Artifact:
        """Remove an artifact and return what it was. Raises AssetMissing."""
        artifact = await self.described(name)
        await self._purge(self._meta(name))
        await self._purge(self._chunks(artifact.id))
        return artifact

    async def sweep(self, abandoned_s: float = ABANDONED_S) -> list[str]:
        """Remove chunks of no artifact that got no other for so long; return their ids.

        Uploads that were killed left them. Raises ArtifactBroken where a description can't be
        read: its chunks would be taken for nobody's.
        """
        held, now = await held_chunks(self.connection, self._bucket)
        loose = held - {artifact.id for artifact in await self.ls()}
        dead = await abandoned(self.connection, self._bucket, loose, abandoned_s, now)
        for each in dead:
            await self._purge(self._chunks(each))
        return dead

    async def _sweep_quietly(self) -> None:
        try:
            if dead := await self.sweep():
                _log.info("removed what %d uploads that were killed had left", len(dead))
        except (BusError, ArtifactBroken) as error:
            _log.warning("what killed uploads left stays for now: %s", error)

    async def read(self, artifact: Artifact, take: Take, progress: Progress | None = None) -> None:
        """Hand an artifact's chunks to `take`, in order. Raises ArtifactBroken.

        Its bytes are counted here; whoever takes them compares the digest.
        """
        done_bytes = 0
        taking: asyncio.Future[None] | None = None
        try:
            async for stored in self._batches(self._chunks(artifact.id)):
                if taking is not None:
                    await taking
                blocks = [each.body for each in stored]
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

    async def _written(self, name: str, path: Path, progress: Progress | None) -> Artifact:
        """Store a file's chunks, again from the start where a lost server mixed them up."""
        for _ in range(_TRIES):
            id_of_chunks = secrets.token_hex(11)
            try:
                places, sha256, size_bytes = await self._sent(path, id_of_chunks, progress)
            except BaseException:
                with contextlib.suppress(BusError):
                    await self._purge(self._chunks(id_of_chunks))
                raise
            if places == sorted(places):
                return Artifact(name, sha256, size_bytes, len(places), id_of_chunks)
            await self._purge(self._chunks(id_of_chunks))
        raise RepositoryFailed(name, "its chunks were stored out of order again and again")

    async def _sent(
        self, path: Path, id_of_chunks: str, progress: Progress | None
    ) -> tuple[list[int], str, int]:
        """Send a file's chunks, some on their way at a time; return where each was stored."""
        digest, size_bytes, sending = hashlib.sha256(), 0, list[asyncio.Task[int]]()
        free, failed = asyncio.Semaphore(_WINDOW), asyncio.Event()
        chunks = _chunks_of(path, digest)
        whole_bytes = (await asyncio.to_thread(path.stat)).st_size

        def ended(task: asyncio.Task[int]) -> None:
            free.release()
            if task.cancelled() or task.exception() is not None:
                failed.set()

        try:
            while chunk := await asyncio.to_thread(next, chunks, b""):
                await free.acquire()
                if failed.is_set():
                    break
                sending.append(self._send(id_of_chunks, len(sending), chunk))
                sending[-1].add_done_callback(ended)
                size_bytes += len(chunk)
                if progress is not None:
                    progress(size_bytes, whole_bytes)
            # All are waited for: one still on its way would be stored behind the purge.
            await asyncio.gather(*sending, return_exceptions=True)
        finally:
            for task in sending:
                task.cancel()
        return [task.result() for task in sending], digest.hexdigest(), size_bytes

    def _send(self, id_of_chunks: str, number: int, chunk: bytes) -> asyncio.Task[int]:
        headers = {MESSAGE_ID: f"{id_of_chunks}.{number}"}
        sent = store(self.connection, self._chunks(id_of_chunks), chunk, headers=headers)
        return asyncio.get_running_loop().create_task(sent)

    async def _batches(self, filter_subject: str) -> AsyncIterator[list[Stored]]:
        """Yield what is stored on a filter; the next is on its way while one is looked at."""
        after, more = 0, 1
        found, more = await self._next(filter_subject, after)
        while found:
            following = None
            if more:
                following = asyncio.ensure_future(self._next(filter_subject, found[-1].sequence))
            try:
                yield found
                found, more = await following if following is not None else ([], 0)
            finally:
                if following is not None:
                    following.cancel()

    async def _next(self, filter_subject: str, after: int) -> tuple[list[Stored], int]:
        return await read_on(self.connection, self._stream, filter_subject, after)

    async def _found(self, name: str) -> Artifact | None:
        stored = await last_on(self.connection, self._stream, self._meta(name))
        return None if stored is None else Artifact.read(stored.body)

    async def _purge(self, filter_subject: str, keep: int = 0) -> None:
        request: Mapping[str, Any] = {"filter": filter_subject, "keep": keep}
        await self.connection.call(f"$JS.API.STREAM.PURGE.{self._stream}", request)

    def _chunks(self, id_of_chunks: str) -> str:
        return f"$O.{self._bucket}.C.{id_of_chunks}"

    def _meta(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


class ThreadedRepository:
    """The repository for threads: `fetching.Repository` over the event loop it is made in.

    What is called like an upload is looked for among `uploads`, if they are given.
    """

    def __init__(self, artifacts: Artifacts, uploads: Artifacts | None = None) -> None:
        self._artifacts, self._uploads = artifacts, uploads
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def sha256_of(self, name: str) -> str:
        """Return an artifact's digest. Raises AssetMissing, RepositoryFailed."""
        return self._called(name, lambda: self._store(name).described(name)).sha256

    def read(self, name: str, partial: Partial, progress: Progress) -> None:
        """Fill a partial file. Raises AssetMissing, ArtifactBroken, RepositoryFailed."""

        async def reading() -> None:
            artifact = await self._store(name).described(name)
            partial.restart()
            partial.reserve(artifact.size_bytes)
            await self._store(name).read(artifact, partial.write, progress)

        self._called(name, reading)

    def _store(self, name: str) -> Artifacts:
        if self._uploads is not None and name.startswith(UPLOADED):
            return self._uploads
        return self._artifacts

    def _called(self, name: str, asked: Callable[[], Coroutine[Any, Any, T]]) -> T:
        assert threading.get_ident() != self._thread, "from the loop this waits for ever"
        try:
            return asyncio.run_coroutine_threadsafe(asked(), self._loop).result()
        except BusError as error:
            raise RepositoryFailed(name, str(error)) from error


def _chunks_of(path: Path, digest: "hashlib._Hash") -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            yield chunk
