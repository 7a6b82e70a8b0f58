"""Commands to agents: repeated while that may help, and no longer."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.services.scheduler.samples import a_request
from tests.services.scheduler.worlds import QUICK, World, a_world, scheduling

PATIENT = replace(QUICK, run_grace_s=600.0)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the scheduler repeat its commands soon."""
    monkeypatch.setattr("services.scheduler.service._LOOK_S", 0.05)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as lent:
        yield lent


@pytest.mark.parametrize("error", ["unknown", "malformed", ""])
async def test_a_start_refused_for_good_fails_the_run_with_the_cause(
    world: World, error: str
) -> None:
    async with scheduling(world, replace(PATIENT, attempts_lost=1)):
        agent = await world.an_agent(refuses=[error] * 1000)
        evaluation = await world.evaluate(a_request())
        status = await world.becomes(evaluation, "failed", within_s=30.0)
    assert status.cause == f"agent a1 would not start it: {error or 'no reason given'}"
    assert 1000 - len(agent.refuses) < 20


async def test_a_start_refused_for_now_is_repeated_until_it_is_taken(world: World) -> None:
    async with scheduling(world, PATIENT):
        agent = await world.an_agent(refuses=["busy", "stale", "stopping"] * 3)
        evaluation = await world.evaluate(a_request())
        status = await world.becomes(evaluation, "analyzed", within_s=30.0)
    assert (status.runs[0].attempt, agent.refuses) == (1, [])


async def test_another_agent_does_what_one_would_not_start(world: World) -> None:
    async with scheduling(world, PATIENT):
        stubborn = await world.an_agent("a1", refuses=["unknown"] * 1000)
        evaluation = await world.evaluate(a_request())
        await world.becomes(evaluation, "running")
        willing = await world.an_agent("a2")
        status = await world.becomes(evaluation, "analyzed", within_s=40.0)
    assert [(run.agent, run.attempt) for run in status.runs] == [("a2", 3)]
    assert (stubborn.orders, [order.attempt for order in willing.orders]) == ([], [3])
