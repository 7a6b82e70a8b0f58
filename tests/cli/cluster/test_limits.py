"""Nobody's key exhausts the broker: it holds so many connections and subscriptions, and no more."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress

import nkeys
import pytest
from nats.aio.client import Client
from nats.errors import Error

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.limits import MOST_TOKENS, limits_of
from mlscope.bus.access.people import person_key
from mlscope.bus.access.permissions import PERMISSIONS, agent_inbox, agent_key, invitation_key
from mlscope.bus.errors import Unreachable
from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.nats.connection import Connection
from mlscope.settings import Settings
from schemas.subjects import ROOT
from tests.cli.cluster.keyholders import AGENT, INVITED, KEYS, PEOPLE, inbox_of, key_file, served

VIEWER = person_key("vp")
OF_AGENT = agent_key(AGENT)
LIMITED = (VIEWER, OF_AGENT, invitation_key(INVITED))
ASKERS = {person_key(asker.name): asker for asker in PEOPLE}
SHARED = ("agent", "requester", "watcher")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a server that knows every kind of key."""
    with served(tmp_path_factory.mktemp("guarded")) as server:
        yield server


class Holder:
    """Connects with a key, and keeps what the server refuses."""

    def __init__(self, server: NatsServer, key: str) -> None:
        """Take the `key`; `open` connects."""
        self._server, self._key = server, key
        self.refusals: list[str] = []
        self.client = Client()

    async def open(self) -> None:
        """Connect once. Raises the server's refusal."""
        await self.client.connect(
            self._server.url,
            nkeys_seed=str(key_file(self._server.folder, self._key)),
            error_cb=self._refused,
            allow_reconnect=False,
        )

    async def subscribe(self, subject: str) -> None:
        """Subscribe to a subject of the key's inbox."""
        inbox = inbox_prefix(agent_inbox(AGENT)) if self._key == OF_AGENT else inbox_of(self._key)
        await self.client.subscribe(f"{inbox}.{subject}")

    async def settle(self) -> None:
        """Wait until the server has read everything sent so far, or has ended the connection."""
        with suppress(Error):
            await self.client.flush(5)
            await self.client.flush(5)

    async def _refused(self, error: Exception) -> None:
        self.refusals.append(str(error))


@pytest.fixture
async def holders() -> AsyncIterator[AsyncExitStack]:
    """Close every connection at the end."""
    async with AsyncExitStack() as stack:
        yield stack


async def connected(
    server: NatsServer, key: str, count: int, stack: AsyncExitStack
) -> list[Holder]:
    """Open `count` connections with a `key`."""
    opened = [Holder(server, key) for _ in range(count)]
    for holder in opened:
        await holder.open()
        stack.push_async_callback(holder.client.close)
    return opened


@pytest.mark.parametrize("key", LIMITED)
async def test_a_key_has_so_many_connections(
    guarded: NatsServer, holders: AsyncExitStack, key: str
) -> None:
    limits = limits_of(key, ASKERS.get(key))
    assert limits is not None
    await connected(guarded, key, limits.connections, holders)
    settings = Settings(nats_url=guarded.url, nats_seed_file=key_file(guarded.folder, key))
    one_more = Connection(settings, key)
    with pytest.raises(Unreachable, match="as many connections as it may have; close some"):
        await one_more.open(3.0)
    await connected(guarded, "requester", 1, holders)


@pytest.mark.parametrize("key", [*LIMITED, *SHARED])
async def test_a_connection_has_so_many_subscriptions(
    guarded: NatsServer, holders: AsyncExitStack, key: str
) -> None:
    limits = limits_of(key, ASKERS.get(key))
    assert limits is not None
    (holder,) = await connected(guarded, key, 1, holders)
    for number in range(limits.subscriptions):
        await holder.subscribe(f"{number}")
    await holder.settle()
    assert holder.refusals == []
    await holder.subscribe("one_more")
    await holder.settle()
    assert "maximum subscriptions exceeded" in str(holder.client.last_error)
    assert holder.client.is_closed


async def test_a_client_that_subscribes_too_often_says_why_it_ended(guarded: NatsServer) -> None:
    settings = Settings(nats_url=guarded.url, nats_seed_file=key_file(guarded.folder, VIEWER))
    connection = Connection(settings, "requester")
    await connection.open(5.0)
    try:
        for number in range(600):
            await connection.subscribe(f"{inbox_of(VIEWER)}.{number}", lambda _: None)
        await asyncio.wait_for(connection.availability.closed.wait(), 10.0)
        assert "maximum subscriptions exceeded" in str(connection.end_cause)
    finally:
        await connection.close()


async def test_a_subject_has_so_many_tokens(guarded: NatsServer, holders: AsyncExitStack) -> None:
    (holder,) = await connected(guarded, VIEWER, 1, holders)
    await holder.subscribe(".".join("a" * (MOST_TOKENS - 1)))
    await holder.settle()
    assert holder.refusals == []
    await holder.subscribe(".".join("a" * MOST_TOKENS))
    await holder.settle()
    assert [text for text in holder.refusals if "too many tokens" in text]


async def test_a_viewer_sends_small_messages(guarded: NatsServer, holders: AsyncExitStack) -> None:
    """Of 8 MB, eight at once are more than the broker keeps for a service: it would end it."""
    (viewing,) = await connected(guarded, VIEWER, 1, holders)
    (requesting,) = await connected(guarded, person_key("rp"), 1, holders)
    viewer, requester = viewing.client, requesting.client
    await viewer.publish(f"{ROOT}.request.match", bytes(256 << 10))
    await requester.publish(f"{ROOT}.request.match", bytes(8 << 20))
    await requester.flush()
    assert (viewer.last_error, requester.last_error) == (None, None)


async def test_the_server_itself_refuses_a_viewer_s_large_message(guarded: NatsServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(guarded))
    info = json.loads((await reader.readline())[5:])
    keys = nkeys.from_seed(key_file(guarded.folder, VIEWER).read_text().strip().encode())
    signed = base64.urlsafe_b64encode(keys.sign(info["nonce"].encode())).rstrip(b"=").decode()
    login = {"nkey": keys.public_key.decode(), "sig": signed, "verbose": False, "pedantic": False}
    body = bytes((256 << 10) + 1)
    writer.write(b"CONNECT %s\r\nPING\r\n" % json.dumps(login).encode())
    writer.write(b"PUB %s.request.match %d\r\n%s\r\n" % (ROOT.encode(), len(body), body))
    answer = b""
    with suppress(ConnectionError):
        while received := await reader.read(4096):
            answer += received
    writer.close()
    assert b"Maximum Payload Violation" in answer


def port_of(server: NatsServer) -> int:
    """Return the port of a server."""
    return int(server.url.rpartition(":")[2])


def test_no_right_of_ours_is_near_the_limit_of_tokens() -> None:
    subjects = [subject for permission in KEYS.values() for subject in permission.subscribe]
    assert max(len(subject.split(".")) for subject in subjects) < MOST_TOKENS // 2


def test_only_services_and_the_owner_s_keys_have_no_limits() -> None:
    unlimited = {name for name in PERMISSIONS if limits_of(name) is None}
    services = {"registry", "scheduler", "collector", "analyzer", "gateway"}
    assert unlimited == services | {"curator", "operator", "provisioner"}
