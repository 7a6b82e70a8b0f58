"""Uploads on a real nats-server: added by whoever asks, bounded, and never taken away."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlscope.assets.addresses import parse
from mlscope.assets.artifacts import Artifacts, ThreadedRepository, connect
from mlscope.assets.cache import Cache
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import ArtifactBroken, AssetMissing, ChecksumMismatch
from mlscope.assets.fetching import Assets
from mlscope.assets.uploads import KEPT_S, Uploads, upload_name
from mlscope.bus.errors import StreamFull
from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.log import read_on
from mlscope.bus.nats.storing import store
from mlscope.bus.streams import ARTIFACTS, STORES, UPLOADS
from tests.contracts.worlds import OpenServer, OpenSettings
from tests.mlscope.assets.old_uploads import describe_as_before, store_as_before

BODY = b"pictures" * 100_000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenServer]:
    """Run a server without users."""
    with OpenServer(tmp_path_factory.mktemp("uploads")) as server:
        yield server


@pytest.fixture
async def artifacts(server: OpenServer) -> AsyncIterator[Artifacts]:
    """Make both stores anew and open them."""
    admin = Admin(OpenSettings(server.url))
    await admin.open()
    known = await admin.stream_names()
    for object_store in STORES:
        if object_store.name in (ARTIFACTS, UPLOADS):
            if f"OBJ_{object_store.name}" in known:
                await admin.delete_stream(f"OBJ_{object_store.name}")
            await admin.make_store(replace(object_store, max_bytes=2 << 20))
    await admin.close()
    async with connect(OpenSettings(server.url), "tester") as opened:
        yield opened


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    """Make a file of several chunks."""
    return written(tmp_path / "blob.tar", BODY)


def written(path: Path, body: bytes) -> Path:
    """Write a file and return it."""
    path.write_bytes(body)
    return path


async def stored(artifacts: Artifacts) -> tuple[int, int]:
    """Return how many messages there are, and for how many seconds they stay."""
    told = await artifacts.connection.call(f"$JS.API.STREAM.INFO.OBJ_{UPLOADS}", {})
    return told["state"]["messages"], told["config"]["max_age"] // 1_000_000_000


async def test_a_file_is_sent_once_and_stays_a_day(artifacts: Artifacts, blob: Path) -> None:
    uploads = Uploads.beside(artifacts)
    name = upload_name(blob)
    assert name == f"uploads/{SHA256}.tar"
    first = await uploads.put(name, blob)
    assert (first.sha256, first.size_bytes) == (SHA256, len(BODY))
    stored_once = await stored(artifacts)
    assert stored_once == (first.chunks + 1, KEPT_S)
    assert await uploads.put(name, blob) == first
    assert await stored(artifacts) == stored_once


async def test_what_is_about_to_go_is_sent_again(
    artifacts: Artifacts, blob: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Uploads.beside(artifacts)
    first = await uploads.put(upload_name(blob), blob)
    monkeypatch.setattr("mlscope.assets.uploads.KEPT_S", 0.0)
    again = await uploads.put(upload_name(blob), blob)
    assert again.id != first.id
    assert await uploads.described(first.name) == again


async def test_a_full_store_refuses_and_nothing_is_removed_for_it(
    artifacts: Artifacts, blob: Path
) -> None:
    uploads = Uploads.beside(artifacts)
    first = await uploads.put(upload_name(blob), blob)
    written(blob, bytes(4 << 20))
    with pytest.raises(StreamFull):
        await uploads.put(upload_name(blob), blob)
    assert await uploads.described(first.name) == first


async def test_an_agent_finds_uploads_beside_artifacts(
    artifacts: Artifacts, blob: Path, cache: Cache, root: Path
) -> None:
    uploads = Uploads.beside(artifacts)
    sent = await uploads.put(upload_name(blob), blob)
    assets = Assets(cache, root, repository=ThreadedRepository(artifacts, uploads))
    with await asyncio.to_thread(assets.fetch, parse(f"artifact://{sent.name}")) as held:
        assert held.path.read_bytes() == BODY
    alone = Assets(cache, root, repository=ThreadedRepository(artifacts))
    with pytest.raises(AssetMissing):
        await asyncio.to_thread(alone.fetch, parse("artifact://uploads/other"))


async def test_bytes_that_are_not_the_request_s_are_refused(
    artifacts: Artifacts, blob: Path, cache: Cache, root: Path
) -> None:
    uploads = Uploads.beside(artifacts)
    name = upload_name(blob)
    written(blob, b"evil")
    sent = await uploads.put(name, blob)
    assets = Assets(cache, root, repository=ThreadedRepository(artifacts, uploads))
    source = parse(f"artifact://{sent.name}")
    with pytest.raises(ChecksumMismatch):
        await asyncio.to_thread(assets.fetch, source, Checksum("sha256", SHA256))


async def test_the_store_has_nothing_that_is_readable(artifacts: Artifacts, blob: Path) -> None:
    """Every agent can read the whole store."""
    sent = await Uploads.beside(artifacts).put(upload_name(blob), blob)
    whole = b"".join(
        message.subject.encode() + message.body
        for message in (await read_on(artifacts.connection, f"OBJ_{UPLOADS}", "$O.>", 0))[0]
    )
    assert len(whole) > len(BODY)
    digest = bytes.fromhex(SHA256)
    for plain in (BODY[:16], SHA256.encode(), digest, base64.urlsafe_b64encode(digest)[:32]):
        assert plain not in whole
    secret = sent.name.rpartition("/")[2].partition(".")[0]
    assert secret.encode() not in whole


async def test_chunks_in_another_order_are_refused(artifacts: Artifacts, blob: Path) -> None:
    uploads = Uploads.beside(artifacts)
    sent = await uploads.put(upload_name(blob), blob)
    chunk = f"$O.{UPLOADS}.C.{sent.id}"
    chunks, _ = await read_on(artifacts.connection, f"OBJ_{UPLOADS}", chunk, 0)
    await artifacts.connection.call(f"$JS.API.STREAM.PURGE.OBJ_{UPLOADS}", {"filter": chunk})
    for message in reversed(chunks):
        await store(artifacts.connection, chunk, message.body, headers={})
    taken: list[bytes] = []
    with pytest.raises(ArtifactBroken, match="its bytes are not those sent"):
        await uploads.read(sent, taken.extend)
    assert taken == []


async def test_a_file_that_has_expired_has_to_be_sent_again(artifacts: Artifacts) -> None:
    with pytest.raises(AssetMissing, match="kept for 24 hours; send it again"):
        await Uploads.beside(artifacts).described(f"uploads/requester/{SHA256}.tar")


async def test_a_file_that_was_sent_to_release_0_1_is_found_by_its_old_address(
    artifacts: Artifacts, cache: Cache, root: Path
) -> None:
    before = await store_as_before(artifacts.connection, BODY)
    repository = ThreadedRepository(artifacts, Uploads.beside(artifacts))
    assets = Assets(cache, root, repository=repository)
    with await asyncio.to_thread(assets.fetch, parse(f"artifact://{before.name}")) as pinned:
        assert (pinned.sha256, pinned.path.read_bytes()) == (SHA256, BODY)


async def test_an_old_address_leads_to_no_other_bytes(artifacts: Artifacts) -> None:
    uploads = Uploads.beside(artifacts)
    forged = await store_as_before(artifacts.connection, b"evil", named=BODY)
    with pytest.raises(ArtifactBroken, match="its bytes are not those sent"):
        await uploads.read(await uploads.described(forged.name), lambda _: None)
    other = replace(forged, sha256=hashlib.sha256(b"evil").hexdigest())
    await describe_as_before(artifacts.connection, other)
    with pytest.raises(ArtifactBroken, match="its description is of another file"):
        await uploads.described(forged.name)


async def test_a_file_of_a_key_is_never_looked_for_among_those_of_release_0_1(
    artifacts: Artifacts,
) -> None:
    before = await store_as_before(artifacts.connection, BODY)
    with pytest.raises(AssetMissing):
        await Uploads.beside(artifacts).described(before.name.replace("/", "/requester/"))


@pytest.mark.parametrize("name", ["uploads/a", "uploads/../a", f"uploads/k/{SHA256}/a.tar"])
async def test_another_name_is_no_upload_s(artifacts: Artifacts, name: str) -> None:
    with pytest.raises(ArtifactBroken, match="is no name of an upload"):
        await Uploads.beside(artifacts).described(name)


@pytest.mark.parametrize(
    ("file", "ending"), [("a.tar", ".tar"), ("a", ""), ("a.x y", ""), ("a.ümlaut", "")]
)
def test_a_name_is_the_content_s(tmp_path: Path, file: str, ending: str) -> None:
    (tmp_path / file).write_bytes(BODY)
    name = upload_name(tmp_path / file)
    assert name == f"uploads/{SHA256}{ending}"
    assert parse(f"artifact://{name}").address == f"artifact://{name}"
