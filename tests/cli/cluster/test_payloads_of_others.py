"""No agent replaces, removes or finds large facts of services and of other agents."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.permissions import PERMISSIONS, agent_inbox, agent_key
from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import encode_envelope, in_envelope
from mlscope.bus.errors import NoSuchPayload, NotPermitted
from mlscope.bus.nats import connect
from mlscope.bus.nats.connection import Connection
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.batch import TraceCaptured
from schemas.encoding.codec import decode_envelope
from schemas.run import RunCompleted
from schemas.subjects import attempt_batches, decisions_of, subject_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.services.collector.builders import a_completion

MINE, OTHER = "a1", "a2"
LARGE = "x" * 600_000
STREAMS = ("OBJ_payloads", "OBJ_batches")
DECISION = a_fact(LARGE)
END = a_completion(agent=OTHER, caveats=(LARGE,))
BATCH = a_batch(0, len(LARGE)).model_copy(update={"agent": OTHER})
OWN_END = END.model_copy(update={"agent": MINE})
OWN_BATCH = BATCH.model_copy(update={"agent": MINE})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a server that knows two agents by keys of their own."""
    names = (*PERMISSIONS, *map(agent_key, (MINE, OTHER)))
    with NatsServer(tmp_path_factory.mktemp("fleet"), names=names) as running:
        yield running


@pytest.fixture
async def stored(server: NatsServer) -> Sequence[str]:
    """Have the scheduler and another agent store large facts; return the subjects of the parts."""
    await provision(settings_of(server, "provisioner"))
    async with service(server, "scheduler") as scheduler:
        await scheduler.publish(DECISION, id="decision")
    async with agent(server, OTHER) as other:
        for fact in (END, BATCH):
            await other.publish(fact, id=fact.schema_name())
    return await subjects_in(server)


def settings_of(server: NatsServer, key: str) -> Settings:
    """Return the settings with which a connection has this `key`."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[key])


def service(server: NatsServer, name: str) -> AbstractAsyncContextManager[Bus]:
    """Open the bus of a service."""
    return connect(settings_of(server, name), name)


def agent(server: NatsServer, name: str) -> AbstractAsyncContextManager[Bus]:
    """Open the bus of the agent `name`, with its own key."""
    return connect(settings_of(server, agent_key(name)), "agent", inbox=agent_inbox(name))


@asynccontextmanager
async def bare(server: NatsServer) -> AsyncIterator[Connection]:
    """Lend a connection of the agent `MINE`, for requests that its bus does not make."""
    settings = settings_of(server, agent_key(MINE))
    connection = Connection(settings, "agent", inbox=agent_inbox(MINE))
    await connection.open(30.0)
    yield connection
    await connection.close()


async def subjects_in(server: NatsServer) -> list[str]:
    """Return the subjects of all chunks and descriptions of large facts that are not `MINE`."""
    connection = Connection(settings_of(server, "provisioner"), "provisioner")
    await connection.open(30.0)
    subjects: list[str] = []
    for stream in STREAMS:
        asked = json.dumps({"subjects_filter": ">"}).encode()
        answer = await connection.request(f"$JS.API.STREAM.INFO.{stream}", asked)
        subjects += json.loads(answer.data)["state"].get("subjects") or {}
    await connection.close()
    return [subject for subject in subjects if f".{MINE}." not in subject]


async def read_back(server: NatsServer) -> None:
    """Check that every service that needs a large fact reads it."""
    async with service(server, "collector") as collector:
        facts = [
            recorded.fact
            for stream in (decisions_of(E), f"mlscope.v1.run.{END.evaluation}.>")
            for recorded in await collector.read(stream)
        ]
        batches = [
            recorded.fact
            for recorded in await collector.read(attempt_batches("trace", E, BATCH.run))
        ]
    assert DECISION in facts
    assert END in facts
    assert BATCH in batches


async def test_who_knows_the_places_of_others_payloads_changes_nothing(
    server: NatsServer, stored: Sequence[str]
) -> None:
    assert len(stored) >= 6
    async with bare(server) as attacker:
        for subject in stored:
            for body in (b'{"deleted": true}', b"", b"{"):
                with pytest.raises(NotPermitted):
                    await attacker.request(subject, body)
    await read_back(server)


async def test_an_agent_cannot_look_for_payloads_of_others(
    server: NatsServer, stored: Sequence[str]
) -> None:
    described = [subject for subject in stored if ".M." in subject]
    patterns = [
        f"$O.{store}.M.{pattern}"
        for store in ("payloads", "batches")
        for pattern in ("*", "*.*", ">", f"{OTHER}.*", f"{OTHER}.>", "*.>")
    ]
    async with bare(server) as attacker:
        for subject in (*described, *patterns):
            place = "OBJ_payloads" if "payloads" in subject else "OBJ_batches"
            with pytest.raises(NotPermitted):
                await attacker.request(f"$JS.API.DIRECT.GET.{place}.{subject}", b"")
        for place in STREAMS:
            with pytest.raises(NotPermitted):
                await attacker.request(f"$JS.API.DIRECT.GET.{place}", b'{"seq": 1, "batch": 9}')


@pytest.mark.parametrize("fact", [OWN_END, OWN_BATCH], ids=["end", "batch"])
async def test_a_description_leads_to_no_chunks_of_others(
    server: NatsServer, stored: Sequence[str], fact: RunCompleted | TraceCaptured
) -> None:
    """What others store would become readable as, or be purged with, the agent's own."""
    subject = subject_of(fact)
    store = "batches" if fact is OWN_BATCH else "payloads"
    chunks = [place for place in stored if place.startswith(f"$O.{store}.C.")]
    token = base64.urlsafe_b64encode(b"forged").decode()
    nuids = [place.removeprefix(f"$O.{store}.C.") for place in chunks]
    assert nuids
    endings = [f"{MINE}.{token}{ending}" for ending in (".*", ".>", "~*", "~.x")]
    for nuid in (*nuids, *endings, "*", ">", f"{MINE}.*", f"{MINE}.>"):
        async with bare(server) as attacker:
            for place in (f"$O.{store}.M.{token}", f"$O.{store}.M.{MINE}.{token}"):
                with suppress(NotPermitted):
                    await attacker.request(place, json.dumps({"nuid": nuid}).encode())
        async with service(server, "collector") as collector:
            with pytest.raises(NoSuchPayload):
                await collector.get_object(subject, "forged", hashlib.sha256(b"").hexdigest())


async def test_an_agent_s_own_large_facts_are_stored_and_read(server: NatsServer) -> None:
    await provision(settings_of(server, "provisioner"))
    for fact in (OWN_END, OWN_BATCH):
        subject = subject_of(fact)
        async with agent(server, MINE) as mine:
            digest = await mine.put_object(subject, "own", LARGE.encode())
            assert await mine.put_object(subject, "own", LARGE.encode()) == digest
            elsewhere = subject_of(fact.model_copy(update={"agent": OTHER}))
            with pytest.raises(NotPermitted):
                await mine.put_object(elsewhere, "own", LARGE.encode())
        async with service(server, "collector") as collector:
            assert await collector.get_object(subject, "own", digest) == LARGE.encode()


async def test_who_names_the_payload_of_another_has_it_not_purged(server: NatsServer) -> None:
    """The collector purges what leaving messages refer to; an agent may refer to any name."""
    await provision(settings_of(server, "provisioner"))
    of_run = attempt_batches("trace", E, "named")
    theirs = BATCH.model_copy(update={"run": "named"})
    reference = await encode_envelope("", in_envelope(theirs, id="theirs"), pretend)
    mine = subject_of(OWN_BATCH.model_copy(update={"run": "named"}))
    async with service(server, "collector") as collector:
        async with bare(server) as attacker:
            answer = await attacker.request(mine, reference)
            forged = int(json.loads(answer.data)["seq"])
        async with agent(server, OTHER) as other:
            await other.publish(theirs, id="theirs")
        await collector.purge(of_run, up_to=forged)
        assert [recorded.fact for recorded in await collector.read(of_run)] == [theirs]


async def test_who_names_its_chunks_as_another_has_those_left(server: NatsServer) -> None:
    """All payloads of a run are purged with it, by the names of their chunks."""
    await provision(settings_of(server, "provisioner"))
    theirs = BATCH.model_copy(update={"run": "theirs"})
    reference = await encode_envelope("", in_envelope(theirs, id="their batch"), pretend)
    token = base64.urlsafe_b64encode(decode_envelope(reference).payload.encode()).decode()
    async with agent(server, OTHER) as other:
        await other.publish(theirs, id="their batch")
    async with bare(server) as attacker:
        for happened in ("captured", "imagined"):
            chunk = f"$O.batches.C.trace.{E}.mine.{happened}.{MINE}.{token}"
            assert "seq" in json.loads((await attacker.request(chunk, b"x")).data)
    async with service(server, "collector") as collector:
        await collector.purge(attempt_batches("trace", E, "mine"))
        (left,) = await collector.read(attempt_batches("trace", E, "theirs"))
    assert left.fact == theirs


async def pretend(_subject: str, _name: str, body: bytes) -> str:
    """Return the checksum of a payload without storing it."""
    return hashlib.sha256(body).hexdigest()
