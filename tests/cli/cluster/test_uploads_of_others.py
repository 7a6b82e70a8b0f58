"""Nobody replaces, removes or finds what another key uploaded, even with the same bytes."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.assets.artifacts import Artifact
from mlscope.assets.errors import ArtifactBroken, AssetMissing
from mlscope.assets.uploads import Uploads, connect_uploads, upload_name
from mlscope.bus.access.people import person_key
from mlscope.bus.access.permissions import agent_key
from mlscope.bus.errors import NotPermitted
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.cli.cluster.keyholders import AGENT, key_file, served

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
    inbox = "agent." + AGENT
    async with connect_uploads(settings(guarded, agent_key(AGENT)), "agent", inbox=inbox) as agent:
        yield agent


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
    assert first.name == upload_name(path).replace("uploads/", f"uploads/{key}/")
    assert await content(agent, first.name) == path.read_bytes()
    assert await sent_by(guarded, key, path) == first == await agent.described(first.name)


@pytest.mark.parametrize("forged", [{"deleted": True}, {"size": 0, "chunks": 0}, {"nuid": "x"}])
async def test_who_knows_the_digest_changes_nothing(
    guarded: NatsServer, agent: Uploads, tmp_path: Path, forged: dict[str, object]
) -> None:
    path = written(tmp_path / "e.tar", json.dumps(forged).encode())
    mine = await sent_by(guarded, MINE, path)
    await describe(guarded, OTHER, mine, **forged)
    assert await content(agent, mine.name) == path.read_bytes()
    assert await sent_by(guarded, MINE, path) == mine


async def test_who_describes_a_file_first_does_not_speak_for_others(
    guarded: NatsServer, agent: Uploads, tmp_path: Path
) -> None:
    path = written(tmp_path / "b.tar", b"b")
    made_up = Artifact(upload_name(path), "00" * 32, 8, 1, "made-up")
    await describe(guarded, OTHER, made_up)
    mine = await sent_by(guarded, MINE, path)
    assert await content(agent, mine.name) == path.read_bytes()
    with pytest.raises(ArtifactBroken):
        await content(agent, mine.name.replace(MINE, OTHER))


async def test_a_description_leads_to_no_chunks_of_others(
    guarded: NatsServer, agent: Uploads, tmp_path: Path
) -> None:
    path = written(tmp_path / "c.tar", b"c")
    mine = await sent_by(guarded, MINE, path)
    for chunks_id in (mine.id, mine.id.rpartition(".")[2], "*", ">"):
        await describe(guarded, OTHER, mine, nuid=chunks_id)
        with pytest.raises(ArtifactBroken):
            await content(agent, mine.name.replace(MINE, OTHER))


async def test_a_requester_cannot_look_for_uploads_of_others(
    guarded: NatsServer, agent: Uploads, tmp_path: Path
) -> None:
    path = written(tmp_path / "d.tar", b"d")
    mine = await sent_by(guarded, MINE, path)
    async with connect_uploads(settings(guarded, OTHER), "requester") as other:
        with pytest.raises(AssetMissing):
            await other.described(upload_name(path))
        with pytest.raises(NotPermitted):
            await other.described(mine.name)


async def describe(server: NatsServer, key: str, artifact: Artifact, **forged: object) -> None:
    """Store a description with a `key`, by all subjects that it might be stored on."""
    file = "uploads/" + artifact.name.rpartition("/")[2]
    encoded = base64.urlsafe_b64encode(file.encode()).decode()
    body = json.dumps(json.loads(artifact.encoded("uploads")) | forged).encode()
    async with connect_uploads(settings(server, key), "requester") as uploads:
        answer = await uploads.connection.request(f"$O.uploads.M.{encoded}", body)
        assert "seq" in json.loads(answer.data)
