"""No key outside the log's account reaches the log by a reply subject.

Every right that a key has is tried, answered onto the log.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.accounts import INSIDE
from mlscope.bus.inboxes import ANSWERS
from mlscope.bus.streams import DURABLES, MANAGED, STREAMS
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.cli.cluster.keyholders import KEYS, inbox_of, key_file, served
from tests.mlscope.bus.access.permission_trace import covers

ROOT = "mlscope.v1"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "security.md"
OUTSIDERS = sorted(KEYS.keys() - INSIDE)
STORED = (
    f"{ROOT}.evaluation.forged.measured",
    f"{ROOT}.analysis.forged.completed",
    f"{ROOT}.run.forged.r1.completed.other",
    f"{ROOT}.trace.forged.r1.captured.other",
    f"{ROOT}.agent.other.left",
    "$KV.catalog.forged",
    "$KV.leases.agent-other",
    "$O.artifacts.M.forged",
    "$O.payloads.C.forged",
    "$O.payloads.M.other.forged",
    "$O.batches.M.other.forged",
)
"""Reply subjects that a stream stores, none of which an agent called `a1` may publish on."""
DESTRUCTIVE = (
    "$JS.API.STREAM.PURGE.EVALUATIONS",
    "$JS.API.STREAM.DELETE.EVALUATIONS",
    "$JS.API.CONSUMER.DELETE.EVALUATIONS.scheduler",
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a server that knows every kind of key."""
    with served(tmp_path_factory.mktemp("guarded")) as server:
        yield server


async def opened(server: NatsServer, name: str) -> Client:
    """Connect with the key called `name`; refusals of the server are expected."""

    async def ignored(_: Exception) -> None:
        return None

    client = Client()
    await client.connect(
        server.url,
        nkeys_seed=str(key_file(server.folder, name)),
        inbox_prefix=inbox_of(name).encode(),
        error_cb=ignored,
    )
    return client


async def settle(client: Client) -> None:
    """Wait until the server has read everything sent so far."""
    await client.flush()
    await client.flush()


async def stored_subjects(reader: Client) -> dict[str, int]:
    """Return how many messages each subject of each stream holds."""
    counts: dict[str, int] = {}
    for stream in ("EVALUATIONS", "FLEET", "CATALOG", "TRACES", "QUERIES", "DEAD"):
        counts |= await _subjects_of(reader, stream)
    for stream in ("KV_leases", "KV_catalog", "OBJ_artifacts", "OBJ_payloads", "OBJ_batches"):
        counts |= await _subjects_of(reader, stream)
    return counts


async def _subjects_of(reader: Client, stream: str) -> dict[str, int]:
    answer = await asked(reader, f"STREAM.INFO.{stream}", subjects_filter=">")
    return answer["state"].get("subjects") or {}


async def asked(reader: Client, request: str, **fields: str) -> dict[str, Any]:
    """Return what JetStream answers to a `request` with these `fields`."""
    body = json.dumps(fields).encode() if fields else b""
    message = await reader.request(f"$JS.API.{request}", body, timeout=30)
    answer: dict[str, Any] = json.loads(message.data)
    return answer


def literal(right: str) -> str:
    """Return one subject that `right` allows."""
    return right.replace("*", "x").replace(">", "x")


@pytest.mark.parametrize("name", OUTSIDERS)
async def test_no_answer_lands_in_the_log(guarded: NatsServer, name: str) -> None:
    await provision(_settings(guarded))
    reader, intruder = await opened(guarded, "provisioner"), await opened(guarded, name)
    body = json.dumps({"seq": 1, "batch": 10, "forged": name}).encode()
    for right in KEYS[name].publish:
        if right == ANSWERS:
            continue
        await intruder.publish(literal(right), body)
        for reply in (*STORED, *DESTRUCTIVE):
            await intruder.publish(literal(right), body, reply=reply)
            # An acknowledged store, or what is stored, answered onto the reply subject.
            await intruder.publish(literal(right), b"", reply=reply)
    await settle(intruder)
    await settle(reader)
    counts = await stored_subjects(reader)
    granted = KEYS[name].publish
    forged = [one for one in STORED if one in counts and not _is_granted(granted, one)]
    await intruder.close()
    await reader.close()
    assert forged == []


async def test_what_a_requester_uploaded_is_answered_to_it_alone(guarded: NatsServer) -> None:
    """The attack as it was found: a body from the store becomes a fact, or a command."""
    await provision(_settings(guarded))
    reader, requester = await opened(guarded, "provisioner"), await opened(guarded, "requester")
    described = "$O.uploads.M.eA=="
    get = f"$JS.API.DIRECT.GET.OBJ_uploads.{described}"
    for body in (b'{"forged": true}', b"{}", b""):
        assert b'"seq"' in (await requester.request(described, body)).data
        for reply in (*STORED, *DESTRUCTIVE):
            await requester.publish(get, b"", reply=reply)
        assert (await requester.request(get, b"")).data == body
    await settle(reader)
    assert not set(STORED) & (await stored_subjects(reader)).keys()
    await requester.close()
    await reader.close()


def _is_granted(rights: tuple[str, ...], subject: str) -> bool:
    return any(covers(right, subject) for right in rights)


def _settings(server: NatsServer) -> Settings:
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files["provisioner"])


@dataclass(frozen=True)
class StreamState:
    """What an intruder must leave as it was: when a stream was made, its messages, its durables.

    A bucket may lose its first message, as each key has one.
    """

    made: str
    first: int
    durables: int


async def states(reader: Client) -> dict[str, StreamState]:
    """Return the state of every stream that is there."""
    streams: dict[str, StreamState] = {}
    for name in (await asked(reader, "STREAM.NAMES"))["streams"]:
        info = await asked(reader, f"STREAM.INFO.{name}")
        state = info["state"]
        first = 0 if name.startswith("KV_") else state["first_seq"]
        streams[name] = StreamState(info["created"], first, state["consumer_count"])
    return streams


async def fill(server: NatsServer) -> None:
    """Have every key store one message wherever it may, so that there is something to lose."""
    for name in OUTSIDERS:
        client = await opened(server, name)
        for right in KEYS[name].publish:
            if right != ANSWERS and not right.startswith(("$JS.", "$SRV.", f"{MANAGED}.")):
                await client.publish(literal(right), b"{}")
        await settle(client)
        await client.close()


def may_empty(name: str) -> set[str]:
    """Return the streams whose messages the key called `name` may remove."""
    prefixes = [f"{MANAGED}.STREAM.{verb}." for verb in ("PURGE", "MSG.DELETE")]
    return {
        right.removeprefix(prefix)
        for right in KEYS[name].publish
        for prefix in prefixes
        if right.startswith(prefix)
    }


@pytest.mark.parametrize("name", OUTSIDERS)
async def test_no_answer_harms_a_stream(guarded: NatsServer, name: str) -> None:
    """Whatever is answered to a key, an order to JetStream as its reply subject gives none."""
    await provision(_settings(guarded))
    await fill(guarded)
    reader, holder = await opened(guarded, "provisioner"), await opened(guarded, name)
    before = await states(reader)
    orders = [
        f"$JS.API.STREAM.{verb}.{stream}" for verb in ("DELETE", "PURGE") for stream in before
    ]
    orders += [f"$JS.API.CONSUMER.DELETE.{durable.stream}.{durable.name}" for durable in DURABLES]
    for right in KEYS[name].publish:
        body = b"" if right.startswith(MANAGED) else b'{"seq": 1, "batch": 10}'
        for order in orders if right != ANSWERS else ():
            await holder.publish(literal(right), body, reply=order)
    await settle(holder)
    await settle(reader)
    after = await states(reader)
    await holder.close()
    await reader.close()
    emptied = {stream: replace(after[stream], first=1) for stream in may_empty(name)}
    assert after | emptied == before | {
        stream: replace(before[stream], first=1) for stream in emptied
    }


async def test_the_provisioner_can_do_harm_as_the_docs_say(guarded: NatsServer) -> None:
    """A promise that is not made: who makes streams may have the end answered anywhere."""
    await provision(_settings(guarded))
    holder = await opened(guarded, "provisioner")
    body = b'{"seq": 1, "batch": 10}'
    await holder.publish("$JS.API.DIRECT.GET.FLEET", body, reply="$JS.API.STREAM.DELETE.TRACES")
    await settle(holder)
    assert {stream.name for stream in STREAMS} - (await states(holder)).keys() == {"TRACES"}
    assert frozenset({"provisioner"}) == INSIDE
    assert "it may delete any stream by a reply subject" in DOCS.read_text("utf-8")
    await holder.close()
