"""A wall clock that is set, forward or back, ends nothing and delays nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from schemas.encoding.codec import encode_body, unpack
from schemas.people import Asker
from schemas.subjects import asked_subject
from services.scheduler.patience import Patience
from tests.services.scheduler.samples import a_request
from tests.services.scheduler.test_patience import completed
from tests.services.scheduler.worlds import QUICK, World, a_world, scheduling

HOUR_NS = 3600 * 1_000_000_000
STEPS = {"an hour forward": HOUR_NS, "three days forward": 72 * HOUR_NS, "back": -HOUR_NS}
PATIENT = replace(QUICK, run_grace_s=60.0, stored_wait_s=60, recording_wait_s=60)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr("services.scheduler.service.POLL_S", 0.05)
    async with a_world() as lent:
        yield lent


def set_clock(monkeypatch: pytest.MonkeyPatch, step_ns: int) -> None:
    """Set the wall clock of this process, as somebody does with `date`."""
    wall_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + step_ns)


@pytest.mark.parametrize("step_ns", STEPS.values(), ids=STEPS.keys())
async def test_a_run_goes_on_over_a_step(
    world: World, monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    agent = await world.an_agent(script=lambda *_: "hang")
    async with scheduling(world, PATIENT):
        evaluation = await world.evaluate(a_request())
        await world.becomes(evaluation, "running")
        set_clock(monkeypatch, step_ns)
        await asyncio.sleep(0.3)
        status = await world.status(evaluation)
        assert (status.state, status.cause) == ("running", "")
        for order in agent.orders:
            for run in order.runs:
                await agent.say(order, run, "completed")
        status = await world.becomes(evaluation, "analyzed", "failed")
        assert (status.state, status.cause) == ("analyzed", "")
        assert "interrupted" not in await world.decisions(evaluation)


@pytest.mark.parametrize("step_ns", STEPS.values(), ids=STEPS.keys())
async def test_a_step_neither_lifts_nor_locks_a_quota(
    world: World, monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """One request a day, asked for before the step, and one of another person after it."""
    ada, bob = (Asker(name, "requester", per_day=1) for name in ("ada", "bob"))

    async def error_of(asker: Asker) -> str:
        body = await world.client.ask(asked_subject(asker, "evaluate"), encode_body(a_request()))
        return str(unpack(body).get("error", ""))

    async with scheduling(world, PATIENT):
        await world.an_agent()
        assert await error_of(ada) == ""
        set_clock(monkeypatch, step_ns)
        errors = [await error_of(asker) for asker in (ada, bob, bob)]
    assert errors == ["exhausted", "", "exhausted"]


@pytest.mark.parametrize("step_ns", STEPS.values(), ids=STEPS.keys())
async def test_a_scheduler_that_starts_after_a_step_waits(
    world: World, monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    await world.an_agent(script=lambda *_: "hang")
    async with scheduling(world, PATIENT):
        evaluation = await world.evaluate(a_request())
        await world.becomes(evaluation, "running")
    set_clock(monkeypatch, step_ns)
    async with scheduling(world, PATIENT):
        await asyncio.sleep(0.3)
        assert (await world.status(evaluation)).state == "running"


async def test_a_run_that_hangs_ends_though_the_clock_was_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.an_agent(script=lambda *_: "hang")
    brief = replace(QUICK, run_grace_s=0.2)
    async with scheduling(world, brief):
        evaluation = await world.evaluate(a_request(run_timeout_s=1))
        await world.becomes(evaluation, "running")
        set_clock(monkeypatch, -HOUR_NS)
        status = await world.becomes(evaluation, "failed")
        assert "time-out: the agent did not end it" in status.cause


def test_times_are_those_at_which_a_fact_was_first_seen() -> None:
    told, patience = completed("online").state, Patience()
    runs = {name: replace(run, since_ns=8) for name, run in told.runs.items()}
    state = replace(told, requested_ns=5, planned_ns=6, measured_ns=0, runs=runs)
    seen = patience.in_local_time(state, 70)
    assert (seen.requested_ns, seen.planned_ns, seen.measured_ns) == (70, 70, 0)
    assert {run.since_ns for run in seen.runs.values()} == {70}
    assert patience.in_local_time(state, 99) is seen
    later = patience.in_local_time(replace(state, measured_ns=7), 100)
    assert (later.planned_ns, later.measured_ns) == (70, 100)
    patience.forget_all_but([])
    assert patience.in_local_time(state, 200).planned_ns == 200
