"""The artifact repository on a real nats-server, beside NATS's own client."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import nats
import pytest

from mlscope.assets.addresses import ArtifactSource
from mlscope.assets.artifacts import (
    BUCKET,
    CHUNK_BYTES,
    Artifact,
    Artifacts,
    ThreadedRepository,
    connect,
)
from mlscope.assets.cache import Cache
from mlscope.assets.errors import (
    ArtifactBroken,
    AssetMissing,
    BadAddress,
    ChecksumMismatch,
    RepositoryFailed,
    SourceUnset,
)
from mlscope.assets.fetching import Assets
from mlscope.assets.sweeping import ABANDONED_S
from mlscope.bus.errors import StreamFull
from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.connection import Connection
from mlscope.bus.streams import Store
from tests.contracts.worlds import OpenServer, OpenSettings

BODY = os.urandom(CHUNK_BYTES * 40 + 17)
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenServer]:
    """Run a server without users."""
    with OpenServer(tmp_path_factory.mktemp("artifacts")) as server:
        yield server


@pytest.fixture
async def artifacts(server: OpenServer) -> AsyncIterator[Artifacts]:
    """Make the store anew and open the repository."""
    admin = Admin(OpenSettings(server.url))
    await admin.open()
    if f"OBJ_{BUCKET}" in await admin.stream_names():
        await admin.delete_stream(f"OBJ_{BUCKET}")
    await admin.make_store(Store(BUCKET, 64 << 20))
    await admin.close()
    async with connect(OpenSettings(server.url), "tester") as opened:
        yield opened


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    """Make a file of many chunks."""
    return written(tmp_path / "blob", BODY)


def written(path: Path, body: bytes) -> Path:
    """Write a file and return it."""
    path.write_bytes(body)
    return path


async def content(artifacts: Artifacts, name: str) -> bytes:
    """Return what an artifact holds."""
    parts: list[bytes] = []

    def take(blocks: Sequence[bytes]) -> None:
        parts.extend(blocks)

    await artifacts.read(await artifacts.described(name), take)
    return b"".join(parts)


async def stored(server: OpenServer) -> int:
    """Return how many messages the store's stream holds."""
    client = await nats.connect(server.url)
    try:
        found = await client.jetstream().stream_info(f"OBJ_{BUCKET}")
        return found.state.messages
    finally:
        await client.close()


async def test_what_is_put_is_listed_and_read(artifacts: Artifacts, blob: Path) -> None:
    steps: list[tuple[int, int | None]] = []
    put = await artifacts.put("models/m.onnx", blob, lambda *at: steps.append(at))
    assert (put.sha256, put.size_bytes, put.chunks) == (SHA256, len(BODY), 41)
    assert steps[-1] == (len(BODY), len(BODY))
    assert await artifacts.ls() == [put]
    assert await content(artifacts, "models/m.onnx") == BODY


async def test_an_empty_file_is_an_artifact(artifacts: Artifacts, blob: Path) -> None:
    written(blob, b"")
    assert (await artifacts.put("empty", blob)).chunks == 0
    assert await content(artifacts, "empty") == b""


async def test_a_newer_one_takes_the_place(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    await artifacts.put("m", blob)
    written(blob, b"new")
    await artifacts.put("m", blob)
    assert await content(artifacts, "m") == b"new"
    assert len(await artifacts.ls()) == 1
    assert await stored(server) == 2


async def test_a_removed_one_leaves_nothing(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    await artifacts.put("m", blob)
    await artifacts.rm("m")
    assert await artifacts.ls() == []
    assert await stored(server) == 0
    with pytest.raises(AssetMissing, match="artifact://m"):
        await artifacts.rm("m")


async def test_what_a_killed_upload_left_goes_once_it_is_old(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    await artifacts.put("kept", blob)
    client = await nats.connect(server.url)
    for _ in range(3):
        await client.jetstream().publish(f"$O.{BUCKET}.C.killed", bytes(CHUNK_BYTES))
    await client.close()
    assert await artifacts.sweep(3600.0) == []
    assert await stored(server) == 42 + 3
    assert await artifacts.sweep(0.0) == ["killed"]
    assert await stored(server) == 42
    assert await content(artifacts, "kept") == BODY


async def test_nothing_is_swept_where_a_description_can_t_be_read(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    kept = await artifacts.put("kept", blob)
    client = await nats.connect(server.url)
    await client.jetstream().publish(f"$O.{BUCKET}.M.a2VwdA==", b"{torn")
    await client.close()
    with pytest.raises(ArtifactBroken):
        await artifacts.sweep(0.0)
    await artifacts.put("other", written(blob, b"x"))
    assert await stored(server) == kept.chunks + 2 + 2


async def test_a_put_sweeps_first(
    artifacts: Artifacts, blob: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[float] = []

    async def sweep(self: Artifacts, abandoned_s: float = ABANDONED_S) -> list[str]:
        assert await self.ls() == []
        swept.append(abandoned_s)
        return []

    monkeypatch.setattr(Artifacts, "sweep", sweep)
    await artifacts.put("m", blob)
    assert swept == [86_400.0]


async def test_natss_own_client_reads_and_writes_the_same(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    await artifacts.put("ours", blob)
    client = await nats.connect(server.url)
    theirs = await client.jetstream().object_store(BUCKET)
    assert (await theirs.get("ours")).data == BODY
    await client.close()


@pytest.mark.parametrize("name", ["../up", "", "a b", "/rooted", "a//b", "uploads/a"])
async def test_a_bad_name_is_refused(artifacts: Artifacts, blob: Path, name: str) -> None:
    with pytest.raises(BadAddress, match="name must be"):
        await artifacts.put(name, blob)


async def test_a_full_store_keeps_no_half(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    written(blob, bytes(80 << 20))
    with pytest.raises(StreamFull):
        await artifacts.put("m", blob)
    assert await stored(server) == 0


async def test_an_artifact_replaced_while_read_is_said(artifacts: Artifacts, blob: Path) -> None:
    older = await artifacts.put("m", blob)
    await artifacts.rm("m")
    with pytest.raises(ArtifactBroken, match="0 of"):
        await artifacts.read(older, lambda _: None)


async def test_a_killed_server_loses_no_chunk(
    artifacts: Artifacts, blob: Path, server: OpenServer
) -> None:
    written(blob, BODY * 4)
    putting = asyncio.create_task(artifacts.put("m", blob))
    await asyncio.sleep(0.05)
    server.kill()
    server.start()
    await putting
    assert await content(artifacts, "m") == BODY * 4


async def test_a_thread_fetches_into_the_cache(
    artifacts: Artifacts, blob: Path, cache: Cache, root: Path
) -> None:
    await artifacts.put("m", blob)
    repository = ThreadedRepository(artifacts)
    assets = Assets(cache, root, repository=repository)
    with await asyncio.to_thread(assets.fetch, ArtifactSource("m")) as held:
        assert held.sha256 == SHA256
        assert held.path.read_bytes() == BODY
    with pytest.raises(AssetMissing):
        await asyncio.to_thread(assets.fetch, ArtifactSource("none"))


async def test_altered_chunks_do_not_reach_the_cache(
    artifacts: Artifacts, blob: Path, cache: Cache, root: Path, server: OpenServer
) -> None:
    put = await artifacts.put("m", blob)
    lie = Artifact("m", "0" * 64, put.size_bytes, put.chunks, put.id)
    client = await nats.connect(server.url)
    subject = f"$O.{BUCKET}.M.bQ=="
    await client.jetstream().publish(subject, lie.encoded(BUCKET))
    await client.close()
    repository = ThreadedRepository(artifacts)
    with pytest.raises(ChecksumMismatch, match=SHA256):
        await asyncio.to_thread(
            Assets(cache, root, repository=repository).fetch, ArtifactSource("m")
        )
    assert cache.used_bytes() == 0


async def test_without_a_repository_it_is_said(
    server: OpenServer, cache: Cache, root: Path
) -> None:
    with pytest.raises(SourceUnset, match="artifacts need a NATS server"):
        Assets(cache, root).fetch(ArtifactSource("m"))
    connection = Connection(OpenSettings(server.url), "tester", patience_s=0.1)
    await connection.open(5.0)
    missing = ThreadedRepository(Artifacts(connection, "none"))
    with pytest.raises(RepositoryFailed, match="mlscope provision"):
        await asyncio.to_thread(missing.sha256_of, "m")
    await connection.close()


async def test_the_loop_itself_may_not_wait_for_it(artifacts: Artifacts) -> None:
    with pytest.raises(AssertionError, match="for ever"):
        ThreadedRepository(artifacts).sha256_of("m")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"[" * 400_000,
        b'{"size": 1e999}',
        b'{"nuid": ">"}',
        b'{"nuid": "*"}',
        b'{"nuid": "a.b"}',
        b'{"size": "%s"}' % (b"9" * 5000),
    ],
)
def test_whatever_a_description_says_it_is_read_or_refused(body: bytes) -> None:
    """A requester writes those of uploads: a wildcard would lead to the chunks of all."""
    well = json.loads(Artifact("a", "00" * 32, 1, 1, "id").encoded(BUCKET))
    with suppress(ValueError, RecursionError):
        if isinstance(fields := json.loads(body), dict):
            body = json.dumps(well | fields).encode()
    with pytest.raises(ArtifactBroken, match="can't be read"):
        Artifact.read(body)
