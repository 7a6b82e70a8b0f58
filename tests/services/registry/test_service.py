"""The registry over a bus: answers, shipped manifests, leases, restarts, several at once."""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.records import Recorded
from mlscope.bus.streams import BUCKETS
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.bus import MemoryBus
from mlscope.tracing.clock import epoch_offset_ns
from schemas.agent import AgentAnnounced, AgentDrained, AgentLeft, Lease
from schemas.dead import LetterBuried
from schemas.encoding.codec import decode_body, encode_body, parse, unpack
from schemas.publishing import CatalogChanged, PublishManifest, WithdrawManifest
from schemas.request import (
    Refused,
)
from schemas.status import AgentStatus, Catalog
from schemas.subjects import REQUEST
from services.agent.host import clock_reading
from services.agent.host.clock_reading import read_cluster_clock
from services.registry import state
from services.registry.service import Registry, serve
from services.registry.state import RegistryState, digest, fold
from tests.pings import until_answering
from tests.services.registry.samples import a_model, an_announcement

SHIPPED = Path(__file__).resolve().parents[3] / "manifests"


@pytest.fixture
def server() -> MemoryServer:
    """Make a server whose leases last a fifth of a second."""
    return MemoryServer(
        buckets=[replace(each, ttl_s=0.2) if each.ttl_s else each for each in BUCKETS]
    )


@contextlib.asynccontextmanager
async def serving(
    server: MemoryServer, folder: Path, heartbeat_s: float = 0.05
) -> AsyncIterator[None]:
    """Run a registry for the time of a block."""
    stop = asyncio.Event()
    settings = Settings(
        manifests_folder=folder, heartbeat_s=heartbeat_s, lease_ttl_s=4 * heartbeat_s
    )
    async with connect(server, "registry") as bus:
        task = asyncio.create_task(serve(bus, settings, stop))
        await until_answering(bus, "registry")
        yield
        stop.set()
        await task


@pytest.fixture
async def client(server: MemoryServer) -> AsyncIterator[Bus]:
    """Open a bus for whoever asks."""
    async with connect(server, "requester") as bus:
        yield bus


async def catalog(client: Bus) -> Catalog:
    """Ask what is known."""
    return decode_body(Catalog, await client.ask(f"{REQUEST}.catalog", b"{}"))


async def agents_become(client: Bus, state: str) -> None:
    """Wait until the only agent is in a state."""
    for _ in range(3000):
        if [each.state for each in (await catalog(client)).agents] == [state]:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not {state}: {await catalog(client)}")


async def test_what_is_shipped_is_there(server: MemoryServer, client: Bus) -> None:
    async with serving(server, SHIPPED):
        names = {model.name for model in (await catalog(client)).models}
    assert {"efficientnet-lite0", "identity", "tiny-cnn"} <= names
    assert server.logs["DEAD"].beyond(("mlscope.v1.dead.>",), 0) == []


async def test_an_agent_reads_how_far_its_clock_is_off(
    server: MemoryServer, client: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ns = 3_600_000_000_000
    assert await read_cluster_clock(client) is None  # nobody answers yet
    async with serving(server, tmp_path):
        same = await read_cluster_clock(client)
        monkeypatch.setattr(clock_reading, "epoch_offset_ns", lambda: epoch_offset_ns() - hour_ns)
        behind = await read_cluster_clock(client)
    assert same is not None
    assert behind is not None
    assert abs(same.offset_ns) <= same.bound_ns
    assert abs(behind.offset_ns - hour_ns) <= behind.bound_ns


async def test_publish_and_withdraw_in_json(
    server: MemoryServer, client: Bus, tmp_path: Path
) -> None:
    async with serving(server, tmp_path):
        body = encode_body(PublishManifest(manifest=a_model()), json_text=True)
        first = json.loads(await client.ask(f"{REQUEST}.publish", body))
        again = json.loads(await client.ask(f"{REQUEST}.publish", body))
        assert (first["repeated"], again["repeated"]) == (False, True)
        wish = encode_body(WithdrawManifest(kind="model", name="m", version="1.0.0"))
        changed = decode_body(CatalogChanged, await client.ask(f"{REQUEST}.withdraw", wish))
        assert changed.name == "m"
        await asyncio.sleep(0.05)
        assert (await catalog(client)).models == ()


@pytest.mark.parametrize("body", [b"{}", b"\x93\x01", b'{"manifest": {"kind": "poem"}}'])
async def test_a_wrong_shape_is_refused_by_name(
    server: MemoryServer, client: Bus, tmp_path: Path, body: bytes
) -> None:
    async with serving(server, tmp_path):
        refused = parse(Refused, unpack(await client.ask(f"{REQUEST}.publish", body)))
    assert refused.error == "malformed"


async def test_a_fact_that_cannot_be_folded_is_buried_and_the_rest_is_known(
    server: MemoryServer, client: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(before: RegistryState, recorded: Recorded) -> RegistryState:
        if isinstance(recorded.fact, AgentDrained):
            raise ZeroDivisionError("cursed")
        return evolve(before, recorded)

    evolve = state.evolve
    monkeypatch.setattr(state, "evolve", fragile)
    place = await client.publish(AgentDrained(agent="a1"), id="cursed")
    async with asyncio.timeout(60), serving(server, tmp_path):
        await client.publish(AgentAnnounced(agent="a1", announcement=an_announcement()), id="a")
        await agents_become(client, "live")
        while await client.acknowledged("registry") <= place:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        (letter,) = [each.fact for each in await client.read("mlscope.v1.dead.>")]
    assert isinstance(letter, LetterBuried)
    assert (letter.stream, letter.sequence) == ("FLEET", place)
    assert letter.reason == "cannot be folded: ZeroDivisionError: cursed"


async def test_a_bad_file_is_buried_and_the_rest_published(
    server: MemoryServer, client: Bus, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "a.yml").write_text("{name: [")
    (models / "b.yml").write_text("name: only\n")
    good = encode_body(a_model(), json_text=True).decode()
    (models / "c.yml").write_text(good)
    async with serving(server, tmp_path):
        assert [model.name for model in (await catalog(client)).models] == ["m"]
        letters = await client.read("mlscope.v1.dead.>")
    assert [getattr(letter.fact, "subject", "") for letter in letters] == ["a.yml", "b.yml"]


async def test_an_agent_is_lost_once_by_two_registries_and_comes_back(
    server: MemoryServer, client: Bus, tmp_path: Path
) -> None:
    async with serving(server, tmp_path), serving(server, tmp_path):
        lease = encode_body(Lease(holder="a1", incarnation="i1"), json_text=True)
        await client.put("leases", "agent-a1", lease)
        fact = AgentAnnounced(agent="a1", announcement=an_announcement())
        await client.publish(fact, id="announced")
        await agents_become(client, "live")
        await agents_become(client, "lost")
        lost = await client.read("mlscope.v1.agent.a1.lost")
        assert len(lost) == 1
        await client.put("leases", "agent-a1", lease)
        await agents_become(client, "live")


async def test_a_lease_that_nobody_renews_is_none_though_the_broker_keeps_it(
    tmp_path: Path,
) -> None:
    """The clock of a broker was set back by an hour: leases end an hour late."""
    server = MemoryServer(
        buckets=[replace(each, ttl_s=3600.0) if each.ttl_s else each for each in BUCKETS]
    )
    lease = encode_body(Lease(holder="a1", incarnation="i1"), json_text=True)
    async with connect(server, "requester") as client, serving(server, tmp_path):
        await client.put("leases", "agent-a1", lease)
        fact = AgentAnnounced(agent="a1", announcement=an_announcement())
        await client.publish(fact, id="announced")
        await agents_become(client, "live")
        await agents_become(client, "lost")
        await client.put("leases", "agent-a1", lease)
        await agents_become(client, "live")


async def test_a_lease_gone_for_less_than_two_heartbeats_loses_nobody(
    client: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was away comes back without leases, and agents renew theirs in a moment."""
    fact = AgentAnnounced(agent="a1", announcement=an_announcement())
    await client.publish(fact, id="announced")
    settings = Settings(manifests_folder=tmp_path, heartbeat_s=100.0, lease_ttl_s=300.0)
    registry = Registry(client, settings)
    registry.state = fold(await client.read("mlscope.v1.agent.>"))
    times = iter((1000.0, 1199.0, 1200.0))
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("services.registry.service.time", clock)
    for lost in (0, 0, 1):
        await registry._record_lost()
        assert len(await client.read("mlscope.v1.agent.a1.lost")) == lost


async def test_of_two_agents_with_one_id_the_one_that_died_is_lost(
    server: MemoryServer, client: Bus, tmp_path: Path
) -> None:
    """The other one renews the lease that both call theirs."""
    async with serving(server, tmp_path):
        for incarnation in ("i1", "i2"):
            fact = AgentAnnounced(agent="a1", announcement=an_announcement("a1", incarnation))
            await client.publish(fact, id=f"announced {incarnation}")
        await agents_become(client, "live")
        renewing = asyncio.create_task(renew(client, "i1"))
        await agents_become(client, "lost")
        lost = await client.read("mlscope.v1.agent.a1.lost")
        assert {getattr(each.fact, "incarnation", "") for each in lost} == {"i2"}
        renewing.cancel()


async def renew(client: Bus, incarnation: str) -> None:
    """Renew the lease of agent a1 for ever."""
    lease = encode_body(Lease(holder="a1", incarnation=incarnation), json_text=True)
    while True:
        await client.put("leases", "agent-a1", lease)
        await asyncio.sleep(0.02)


async def test_who_leaves_is_not_lost(server: MemoryServer, client: Bus, tmp_path: Path) -> None:
    async with serving(server, tmp_path):
        fact = AgentAnnounced(agent="a1", announcement=an_announcement())
        await client.publish(fact, id="announced")
        await client.publish(AgentLeft(agent="a1", incarnation="i1"), id="left")
        await agents_become(client, "left")
        await asyncio.sleep(0.3)
        assert await client.read("mlscope.v1.agent.a1.lost") == []


async def test_a_restart_mends_the_bucket(
    server: MemoryServer, client: Bus, tmp_path: Path
) -> None:
    async with serving(server, tmp_path):
        fact = AgentAnnounced(agent="a1", announcement=an_announcement())
        await client.publish(fact, id="announced")
        await agents_become(client, "live")
    await client.put("catalog", "agent_a1", b"{}")
    await client.put("catalog", "model_gone", b"{}")
    async with serving(server, tmp_path):
        entry = await client.get("catalog", "agent_a1")
        assert entry is not None
        assert entry.value is not None
        assert decode_body(AgentStatus, entry.value).announcement.agent == "a1"
        async with asyncio.timeout(60):
            while await client.get("catalog", "model_gone") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@dataclass
class Refusals:
    """How many more values of agent a1 the bucket refuses, and how many it refused."""

    left: float
    count: int = 0


def refusing(monkeypatch: pytest.MonkeyPatch, left: float) -> Refusals:
    """Have the bucket refuse the next `left` values of agent a1."""
    put, refusals = MemoryBus.put, Refusals(left)

    async def away(bus: MemoryBus, bucket: str, key: str, value: bytes, **more: int) -> int:
        if key == "agent_a1" and refusals.left > 0:
            refusals.left -= 1
            refusals.count += 1
            raise Unreachable("away")
        return await put(bus, bucket, key, value, **more)

    monkeypatch.setattr(MemoryBus, "put", away)
    return refusals


async def test_a_bucket_that_can_t_be_written_ends_no_registry(
    server: MemoryServer, client: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = refusing(monkeypatch, left=2)
    async with serving(server, tmp_path):
        fact = AgentAnnounced(agent="a1", announcement=an_announcement())
        await client.publish(fact, id="announced")
        async with asyncio.timeout(60):
            while await client.get("catalog", "agent_a1") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert refusals == Refusals(left=0, count=2)


async def test_a_fact_is_acknowledged_only_once_the_bucket_shows_it(
    server: MemoryServer, client: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = refusing(monkeypatch, left=1)
    async with asyncio.timeout(60), serving(server, tmp_path, heartbeat_s=600.0):
        fact = AgentAnnounced(agent="a1", announcement=an_announcement())
        sequence = await client.publish(fact, id="announced")
        while await client.acknowledged("registry") < sequence:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await client.get("catalog", "agent_a1") is not None
    assert refusals == Refusals(left=0, count=1)


async def test_a_bucket_that_can_t_be_written_at_the_start_is_written_later(
    server: MemoryServer, client: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = refusing(monkeypatch, left=math.inf)
    fact = AgentAnnounced(agent="a1", announcement=an_announcement())
    await client.publish(fact, id="announced")
    async with asyncio.timeout(60), serving(server, tmp_path):
        refusals.left = 0
        while await client.get("catalog", "agent_a1") is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_stats_tell_the_digest_of_the_log(
    server: MemoryServer, client: Bus, few_manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[RegistryState] = []

    def noted(state: RegistryState) -> str:
        computed.append(state)
        return digest(state)

    monkeypatch.setattr("services.registry.service.digest", noted)
    async with serving(server, few_manifests):
        told = json.loads(await client.ask("$SRV.STATS.registry", b""))
        log = await client.read("mlscope.v1.manifest.>")
        again = json.loads(await client.ask("$SRV.STATS.registry", b""))
    assert len(computed) == len(set(map(id, computed)))  # for each state once
    assert again["endpoints"][0]["data"] == told["endpoints"][0]["data"]
    assert told["endpoints"][0]["data"]["digest"] == digest(fold(log))
