"""A registry whose bus fails for a moment, or whose shipped manifests contradict the log."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.client.asking import ask_for
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.bus import MemoryBus
from schemas.agent import AgentAnnounced, AgentLost, Lease
from schemas.dead import LetterBuried
from schemas.encoding.codec import encode_body
from schemas.manifest import ManifestPublished
from schemas.request import ShowCatalog
from schemas.status import Catalog
from services.registry import service
from services.registry.service import Registry, serve
from services.registry.state import fold
from tests.services.registry.samples import a_model, an_announcement

DEAD = "mlscope.v1.dead.>"
MANIFESTS = "mlscope.v1.manifest.>"


@contextlib.asynccontextmanager
async def serving(bus: Bus, folder: Path, heartbeat_s: float = 600.0) -> AsyncIterator[None]:
    """Run a registry with the manifests of `folder`."""
    stop = asyncio.Event()
    settings = Settings(manifests_folder=folder, heartbeat_s=heartbeat_s, lease_ttl_s=900.0)
    async with asyncio.timeout(60):
        task = asyncio.create_task(serve(bus, settings, stop))
        try:
            yield
        finally:
            stop.set()
            await task


def shipped(folder: Path, operator: str = "decode") -> Path:
    """Write the manifest of one model into `folder`."""
    (folder / "models").mkdir(exist_ok=True)
    body = encode_body(a_model(operator=operator), json_text=True)
    (folder / "models" / "m.yml").write_bytes(body)
    return folder


async def read(bus: Bus, subject: str, count: int) -> list[Any]:
    """Return the first `count` facts of a subject once there are as many."""
    while len(facts := await bus.read(subject)) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return [recorded.fact for recorded in facts]


async def test_a_changed_manifest_of_a_known_version_is_buried_and_changes_nothing(
    tmp_path: Path,
) -> None:
    server = MemoryServer()
    # Each start has a connection of its own: the first one's would share the questions.
    async with connect(server, "registry") as bus, serving(bus, shipped(tmp_path)):
        await read(bus, MANIFESTS, 1)
    changed = shipped(tmp_path, operator="resize")
    async with connect(server, "registry") as bus, serving(bus, changed):
        (letter,) = await read(bus, DEAD, 1)
        catalog = await ask_for(bus, ShowCatalog(kind="scenario"), Catalog)
        (published,) = await read(bus, MANIFESTS, 1)
    assert catalog.refused == {"model m": letter.reason}
    assert isinstance(letter, LetterBuried)
    assert letter.subject == "model m"
    assert "1.0.0" in letter.reason
    assert published.manifest.inputs[0].steps[0].operator == "decode"


def failing_once(monkeypatch: pytest.MonkeyPatch, kind: type[object]) -> list[object]:
    """Have the bus take the second fact of a `kind` only; return those it did not take."""
    publish, failed = MemoryBus.publish, list[object]()

    async def fails(bus: MemoryBus, fact: Any, **more: Any) -> int:
        if isinstance(fact, kind) and not failed:
            failed.append(fact)
            raise Unreachable("away")
        return await publish(bus, fact, **more)

    monkeypatch.setattr(MemoryBus, "publish", fails)
    return failed


async def test_a_shipped_manifest_is_published_once_the_broker_is_back(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_RETRY_S", 0.01)
    failed = failing_once(monkeypatch, ManifestPublished)
    async with serving(bus, shipped(tmp_path)):
        (published,) = await read(bus, MANIFESTS, 1)
    assert failed == [published]
    assert await bus.read(DEAD) == []


async def test_a_loss_that_cannot_be_recorded_is_recorded_at_a_later_heartbeat(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = failing_once(monkeypatch, AgentLost)
    await bus.publish(AgentAnnounced(agent="a1", announcement=an_announcement()), id="announced")
    async with serving(bus, tmp_path, heartbeat_s=0.02):
        (lost,) = await read(bus, "mlscope.v1.agent.a1.lost", 1)
    assert failed == [lost]


async def test_an_agent_that_renewed_its_lease_unseen_is_not_lost(bus: Bus, tmp_path: Path) -> None:
    """Its watch may be late: the lease itself is read before a loss is recorded."""
    await bus.publish(AgentAnnounced(agent="a1", announcement=an_announcement()), id="announced")
    lease = encode_body(Lease(holder="a1", incarnation="i1"), json_text=True)
    await bus.put("leases", "agent-a1", lease)
    settings = Settings(manifests_folder=tmp_path, heartbeat_s=0.0, lease_ttl_s=1.0)
    registry = Registry(bus, settings)
    registry.state = fold(await bus.read("mlscope.v1.agent.>"))
    await registry._record_lost()
    assert await bus.read("mlscope.v1.agent.a1.lost") == []
    await bus.delete("leases", "agent-a1")
    await registry._record_lost()
    assert len(await bus.read("mlscope.v1.agent.a1.lost")) == 1


async def test_a_catalog_that_never_gets_there_does_not_hold_an_answer_for_ever(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def noted(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(asyncio, "sleep", noted)
    await Registry(bus, Settings(manifests_folder=tmp_path)).reached(fleet=9)
    assert (pauses[0], pauses[-1], len(pauses)) == (0.001, 0.5, 16)
