"""Nobody replaces, removes or finds what another key uploaded, even with the same bytes."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.assets.artifacts import Artifact, connect
from mlscope.assets.errors import ArtifactBroken, AssetMissing
from mlscope.assets.uploads import Uploads, connect_uploads, upload_name
from mlscope.bus.access.people import person_key
from mlscope.bus.access.permissions import agent_key
from mlscope.bus.errors import NotPermitted
from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.log import StoredMessage, read_on
from mlscope.bus.streams import STORES, UPLOADS
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.cli.cluster.keyholders import AGENT, key_file, served
from tests.contracts.worlds import OpenServer, OpenSettings
from tests.mlscope.assets.old_uploads import store_as_before

BODY = b"pictures" * 100_000
MINE, OTHER = person_key("rp"), person_key("op")
SENDERS = (MINE, OTHER, "requester", "gateway")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a server that knows every kind of key."""
    with served(tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture
async def agent(guarded: NatsServer) -> AsyncIterator[Uploads]:
    """Open the uploads as an agent reads them."""
    await provision(settings(guarded, "provisioner"))
    async with agent_on(guarded) as agent:
        yield agent


def agent_on(server: NatsServer) -> AbstractAsyncContextManager[Uploads]:
    """Open the uploads of a `server` as an agent reads them."""
    inbox = "agent." + AGENT
    return connect_uploads(settings(server, agent_key(AGENT)), "agent", inbox=inbox)


def settings(server: NatsServer, key: str) -> Settings:
    """Return the settings with which a connection has this `key`."""
    return Settings(nats_url=server.url, nats_seed_file=key_file(server.folder, key))


def written(path: Path, ending: bytes) -> Path:
    """Write a file of several chunks that has this `ending`, and return its path."""
    path.write_bytes(BODY + ending)
    return path


async def sent_by(server: NatsServer, key: str, path: Path) -> Artifact:
    """Upload a file with a `key`, as its holder does."""
    name = key if key == "gateway" else "requester"
    async with connect_uploads(settings(server, key), name) as uploads:
        return await uploads.put(upload_name(path), path)


async def content(agent: Uploads, name: str) -> bytes:
    """Return the bytes of an upload."""
    blocks: list[bytes] = []
    await agent.read(await agent.described(name), blocks.extend)
    return b"".join(blocks)


@pytest.mark.parametrize("key", SENDERS)
async def test_an_upload_is_found_below_its_sender_s_key(
    guarded: NatsServer, agent: Uploads, tmp_path: Path, key: str
) -> None:
    path = written(tmp_path / "a.tar", b"a")
    first = await sent_by(guarded, key, path)
    assert first.name.startswith(f"uploads/{key}/")
    assert await content(agent, first.name) == path.read_bytes()
    assert await sent_by(guarded, key, path) == first == await agent.described(first.name)


@pytest.mark.parametrize("forged", [{"deleted": True}, {"size": 0, "chunks": 0}, {"nuid": "x"}])
async def test_who_knows_the_address_changes_nothing(
    guarded: NatsServer, agent: Uploads, tmp_path: Path, forged: dict[str, object]
) -> None:
    path = written(tmp_path / "e.tar", json.dumps(forged).encode())
    mine = await sent_by(guarded, MINE, path)
    await describe(guarded, OTHER, await description(agent, mine), **forged)
    assert await content(agent, mine.name) == path.read_bytes()
    assert await sent_by(guarded, MINE, path) == mine


async def test_a_description_leads_to_no_chunks_of_others(
    guarded: NatsServer, agent: Uploads, tmp_path: Path
) -> None:
    path = written(tmp_path / "c.tar", b"c")
    mine = await sent_by(guarded, MINE, path)
    for chunks_id in (mine.id, mine.id.rpartition(".")[2], "*", ">"):
        await describe(guarded, OTHER, await description(agent, mine), nuid=chunks_id)
        with pytest.raises(ArtifactBroken):
            await content(agent, mine.name.replace(MINE, OTHER))


@pytest.mark.parametrize("wildcard", ["*", ">"])
async def test_a_requester_cannot_look_for_uploads_of_others(
    guarded: NatsServer, agent: Uploads, tmp_path: Path, wildcard: str
) -> None:
    """JetStream takes a wildcard that is a published subject for a filter."""
    path = written(tmp_path / "d.tar", wildcard.encode())
    mine = await sent_by(guarded, MINE, path)
    encoded = (await description(agent, mine)).subject.rpartition(".")[2]
    other = await sent_by(guarded, OTHER, written(tmp_path / "e.tar", wildcard.encode() * 2))
    look = "$JS.API.DIRECT.GET.OBJ_uploads.$O.uploads.M."
    async with connect_uploads(settings(guarded, OTHER), "requester") as uploads:
        answer = await uploads.connection.request(look + encoded, b"")
        assert (answer.headers or {})["Status"] == "404"
        answer = await uploads.connection.request(look + wildcard, b"")
        subject = (await description(agent, other)).subject
        assert (answer.headers or {})["Nats-Subject"] == subject
        for subject in (f"{MINE}.{encoded}", f"*.{encoded}", "*.*"):
            with pytest.raises(NotPermitted):
                await uploads.connection.request(look + subject, b"")


async def test_an_agent_reads_what_was_sent_to_release_0_1_and_nobody_adds_to_it(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "f.tar", b"f")
    with served(tmp_path / "upgraded") as server:
        before = await upgrade(tmp_path / "before", server, path.read_bytes())
        async with agent_on(server) as agent:
            assert await content(agent, before.name) == path.read_bytes()
            await describe(server, MINE, await description(agent, before), nuid="forged")
            assert await content(agent, before.name) == path.read_bytes()
        for key in (OTHER, "requester", "gateway"):
            name = key if key == "gateway" else "requester"
            async with connect_uploads(settings(server, key), name) as uploads:
                with pytest.raises(AssetMissing):
                    await uploads.described(before.name)


async def upgrade(folder: Path, server: NatsServer, body: bytes) -> Artifact:
    """Have a `server` begin with the store of release 0.1, to which one file was sent."""
    chunks: list[bytes] = []
    with OpenServer(folder) as old:
        admin = Admin(OpenSettings(old.url))
        await admin.open()
        (uploads,) = (store for store in STORES if store.name == UPLOADS)
        await admin.make_store(uploads)
        async with connect(OpenSettings(old.url), "requester") as artifacts:
            before = await store_as_before(artifacts.connection, body)
        described = await admin.snapshot_stream(f"OBJ_{UPLOADS}", chunks.append)
        await admin.close()
    admin = Admin(settings(server, "provisioner"))
    await admin.open()
    await admin.restore_stream(f"OBJ_{UPLOADS}", described, chunks)
    await admin.close()
    await provision(settings(server, "provisioner"))
    return before


async def description(agent: Uploads, artifact: Artifact) -> StoredMessage:
    """Return the message that describes an upload in the store."""
    chunks_id = artifact.id.rpartition(".")[2]
    messages, _ = await read_on(agent.connection, "OBJ_uploads", "$O.uploads.M.>", 0)
    return next(one for one in messages if json.loads(one.body)["nuid"] == chunks_id)


async def describe(server: NatsServer, key: str, message: StoredMessage, **forged: object) -> None:
    """Store a forged description with a `key`, under the name that another's `message` has."""
    encoded = message.subject.rpartition(".")[2]
    body = json.dumps(json.loads(message.body) | forged).encode()
    async with connect_uploads(settings(server, key), "requester") as uploads:
        answer = await uploads.connection.request(f"$O.uploads.M.{encoded}", body)
        assert "seq" in json.loads(answer.data)
