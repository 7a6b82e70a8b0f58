"""An agent whose owner allows containers, over a bus; its engine is a stand-in."""

from pathlib import Path

import pytest

from mlscope.testing.memory_bus import MemoryServer
from schemas.agent import AgentAnnounced, Announcement
from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed
from tests.services.agent.builders import a_run, a_subject, an_order
from tests.services.agent.host.containers.engines import (
    DIGEST,
    IMAGE,
    READY,
    FakeEngine,
    engine_on_the_path,
)
from tests.services.agent.test_service import Scheduler, serving


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """Put an engine with one image on the PATH."""
    return engine_on_the_path(tmp_path / "engine", monkeypatch)


def in_container(**more: object) -> WorkOrder:
    """Return an order for a session in the container."""
    return an_order(a_subject(container=IMAGE), **more)  # type: ignore[arg-type]


async def looked(scheduler: Scheduler) -> Announcement:
    """Return the announcement after the agent's first look at its images."""
    *_, last = await scheduler.facts(AgentAnnounced, 2)
    return last.announcement


async def test_it_announces_its_engine_and_what_its_images_have(
    tmp_path: Path, engine: FakeEngine
) -> None:
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        announced = await looked(scheduler)
    by_image = {own.image: own for own in announced.containers}
    assert (announced.engine, announced.engine_reason) == ("docker 28.2.2", "")
    assert [runtime.framework for runtime in by_image[IMAGE].runtimes] == ["onnxruntime"]
    assert "docker pull mlscope:0.1.0-jax" in by_image["mlscope:0.1.0-jax"].reason
    assert len(engine.commands("run")) == 1


async def test_a_silent_engine_is_announced(tmp_path: Path, engine: FakeEngine) -> None:
    engine.has(unreachable=True)
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        announced = await looked(scheduler)
    assert announced.containers == ()
    assert announced.engine_reason.startswith("container engine docker: Cannot connect")


async def test_a_session_runs_in_its_container_for_all_its_orders(
    tmp_path: Path, engine: FakeEngine
) -> None:
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        await looked(scheduler)
        for run in ("r0", "r1"):
            await scheduler.command("start", in_container(runs=(a_run(run),)))
        outcomes = await scheduler.facts(RunCompleted, 2)
    assert {outcome.conditions.container_digest for outcome in outcomes} == {DIGEST}
    assert len({outcome.conditions.opened for outcome in outcomes}) == 1
    assert sum("services.agent.worker.contained" in run for run in engine.commands("run")) == 1


async def test_what_a_former_start_left_behind_is_removed(
    tmp_path: Path, engine: FakeEngine
) -> None:
    engine.has(left=["c7", "c8"])
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        await looked(scheduler)
        folder = tmp_path / "data" / "agents" / "a1"
        (asked,) = engine.commands("ps")
        assert asked[-1] == f"label=mlscope.agent={folder}"
        assert engine.commands("rm") == [["rm", "--force", "c7", "c8"]]


async def test_an_image_that_its_owner_does_not_offer_is_not_started(
    tmp_path: Path, engine: FakeEngine
) -> None:
    subject = a_subject(container="evil:1")
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        await looked(scheduler)
        await scheduler.command("start", an_order(subject))
        (failed,) = await scheduler.facts(RunFailed)
    assert failed.message == ("container evil:1: no framework manifest of the agent's own gives it")
    assert len(engine.commands("run")) == 1


async def test_without_leave_no_container_starts(tmp_path: Path, engine: FakeEngine) -> None:
    async with serving(MemoryServer(), tmp_path / "data") as scheduler:
        await scheduler.command("start", in_container())
        (failed,) = await scheduler.facts(RunFailed)
    assert "its owner allows them with MLSCOPE_CONTAINERS" in failed.message
    assert engine.commands("run") == []


async def test_an_order_does_not_wait_for_an_image_and_is_not_disturbed_by_it(
    tmp_path: Path, engine: FakeEngine
) -> None:
    engine.has(images={IMAGE: {**READY, "hangs": True}})
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        await engine.hanging()
        await scheduler.command("start", an_order(a_subject()))
        await scheduler.facts(RunCompleted)
        assert [len(engine.commands(verb)) for verb in ("run", "rm")] == [1, 1]


@pytest.mark.parametrize("verb", ["version", "ps"])
async def test_an_engine_that_hangs_keeps_no_agent_from_work_or_from_its_end(
    tmp_path: Path, engine: FakeEngine, verb: str
) -> None:
    engine.has(hangs=[verb])
    async with serving(MemoryServer(), tmp_path / "data", containers="docker") as scheduler:
        await engine.hanging()
        assert await scheduler.held_lease()
    await engine.nothing_hangs()
