"""A scheduler that starts where others were at work, or died at it."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mlscope.bus.bus import Delivery
from mlscope.bus.records import Entry
from mlscope.bus.wrapping import WrappedBus
from mlscope.testing.memory_bus import connect
from schemas.agent import Lease
from schemas.encoding.codec import encode_body
from schemas.evaluation import EvaluationRequested, RunIssued
from schemas.message import Fact
from schemas.run import RunReady
from services.scheduler.decision_log import DecisionLog
from services.scheduler.evaluation.decide import decide, decide_cancel
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet
from services.scheduler.remote_load.issued import LoadRecord
from services.scheduler.service import serve
from tests.pings import until_answering
from tests.services.scheduler.doubles import hangs, scripted
from tests.services.scheduler.samples import a_catalog, a_request, an_agent
from tests.services.scheduler.stories import completed_fact
from tests.services.scheduler.worlds import QUICK, World, a_world, quick, scheduling

E, RUN = "e1", "b1-poisson-model"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as lent:
        yield lent


async def decides(state: EvaluationState) -> Sequence[Fact]:
    return decide(state, time.time_ns(), Fleet(a_catalog(an_agent())))


async def cancels(state: EvaluationState) -> Sequence[Fact]:
    return [] if state.is_ended else decide_cancel(state, "enough")


async def issues(state: EvaluationState) -> Sequence[Fact]:
    said = RunIssued(evaluation=E, run=RUN, attempt=1, issuer="other")
    return [] if state.runs[RUN].issuer else [said]


async def a_run_under_way(world: World) -> DecisionLog:
    """Have another scheduler's evaluation in the log, its run started on agent a1."""
    recorder = DecisionLog(world.client, EvaluationIndex())
    request = a_request(scenarios=["poisson"])
    asked = EvaluationRequested(evaluation=E, request=request, requested_ns=time.time_ns())
    await recorder.record(EvaluationState(), [asked])
    await recorder.settle(E, decides)
    return recorder


async def test_agents_hear_of_an_end_whose_scheduler_died_at_once(world: World) -> None:
    recorder = await a_run_under_way(world)
    await recorder.settle(E, cancels)
    agent = await world.an_agent(script=hangs)
    async with scheduling(world):
        for _ in range(6000):
            if agent.closes and agent.stops:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
    assert (agent.closes, agent.stops) == (["b1"], [(RUN, 1)])


async def test_complete_runs_are_analyzed_though_who_cancelled_died_at_once(world: World) -> None:
    recorder = await a_run_under_way(world)
    state = await recorder.current(E)
    fact = completed_fact(state.runs[RUN], 1, random.Random(1))
    await world.client.publish(fact, id="completed")
    state = await recorder.current(E)
    await recorder.record(state, decide_cancel(state, "enough")[:1])
    async with scheduling(world):
        status = await world.analyzed(E)
    assert (status.state, status.tables) == ("cancelled", ("latency",))
    assert (await world.decisions(E))[-3:] == ["cancelled", "measured", "analyzed"]


async def test_what_was_cut_off_is_analyzed_though_who_cancelled_died_at_once(
    world: World,
) -> None:
    recorder = await a_run_under_way(world)
    await recorder.settle(E, cancels)
    await world.an_agent(script=hangs, answered=3)
    async with scheduling(world):
        status = await world.analyzed(E)
    assert (status.state, status.tables) == ("cancelled", ("latency",))


class LateLeases(WrappedBus):
    """A bus whose leases come late."""

    async def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Wait before the first lease."""
        if bucket == "leases":
            await asyncio.sleep(1.0)
        async for entry in self._bus.watch(bucket):
            yield entry


async def test_a_load_others_issue_goes_on_while_leases_are_not_known(world: World) -> None:
    recorder = await a_run_under_way(world)
    await world.client.publish(RunReady(evaluation=E, run=RUN, attempt=1, agent="a1"), id="ready")
    await recorder.settle(E, issues)
    lease = encode_body(Lease(holder="other", incarnation="other"), json_text=True)
    await world.client.put("leases", "issuer-other", lease)
    await world.an_agent(script=hangs)
    await asyncio.sleep(2 * QUICK.lease_ttl_s)
    stop = asyncio.Event()
    async with connect(world.server, "scheduler") as bus:
        late: Any = LateLeases(bus)
        serving = asyncio.create_task(serve(late, quick(), stop, QUICK))
        await until_answering(world.client, "scheduler")
        await asyncio.sleep(0.3)
        stop.set()
        await serving
    assert await world.decisions(E) == ["requested", "planned", "started", "issued"]


async def test_a_decision_nobody_can_read_does_not_stop_an_evaluation(world: World) -> None:
    await a_run_under_way(world)
    world.server.store(
        f"mlscope.v1.evaluation.{E}.paused", b"from the future", id="", expected=None
    )
    async with scheduling(world):
        await world.an_agent(script=hangs)
        await world.cancel(E)
        status = await world.becomes(E, "cancelled")
    assert status.cause == "enough"


async def test_a_lease_that_runs_out_during_a_start_costs_one_attempt(world: World) -> None:
    """The agent took the order; when it is back it ends that attempt and does the next."""
    async with scheduling(world, replace(QUICK, agent_grace_s=60.0)):
        agent = await world.an_agent(script=scripted("hang", "complete"))
        evaluation = await world.evaluate(a_request())
        for _ in range(6000):
            if agent.orders:
                break
            await asyncio.sleep(0.01)
        await agent.enter("lost")
        for _ in range(6000):
            if "interrupted" in await world.decisions(evaluation):
                break
            await asyncio.sleep(0.01)
        assert agent.stops == [], "nobody is there to hear it"
        await agent.enter("live")
        status = await world.becomes(evaluation, "analyzed")
    assert [order.attempt for order in agent.orders] == [1, 2]
    assert ("b1-online-model", 1) in agent.stops
    assert status.runs[0].attempt == 2


async def test_of_two_agents_with_one_id_the_one_that_is_meant_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one answers first, again and again, that the order is not for its start."""
    monkeypatch.setattr("services.scheduler.service.POLL_S", 0.05)
    async with scheduling(world):
        agent = await world.an_agent(refuses=["stale"] * 12)
        status = await world.becomes(await world.evaluate(a_request()), "analyzed")
    assert (status.runs[0].attempt, len(agent.orders)) == (1, 1)


async def test_whose_turn_it_is_goes_on_before_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.scheduler.service.POLL_S", 3600.0)
    async with scheduling(world):
        agent = await world.an_agent(script=hangs)
        first, second = [await world.evaluate(a_request()) for _ in range(2)]
        await world.becomes(first, "running")
        await world.becomes(second, "planned")
        await asyncio.sleep(0.3)
        assert (await world.status(second)).state == "planned"
        await agent.say(agent.orders[0], "b1-online-model", "complete")
        await world.becomes(second, "running")


async def test_an_agent_still_at_work_on_what_is_over_is_stopped_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.scheduler.service.POLL_S", 0.05)
    async with scheduling(world):
        agent = await world.an_agent(script=hangs)
        evaluation = await world.evaluate(a_request())
        await world.becomes(evaluation, "running")
        await world.cancel(evaluation)
        busy = (f"{evaluation}/b1-online-model/1", "e9/unknown/1")
        lease = encode_body(Lease(holder="a1", incarnation="i1", busy=busy), json_text=True)
        for _ in range(6000):
            await world.client.put("leases", "agent-a1", lease)
            if len(agent.stops) > 2:
                break
            await asyncio.sleep(0.02)
    assert len(agent.stops) > 2
    assert set(agent.stops) == {("b1-online-model", 1)}


class Deaf(WrappedBus):
    """A bus that brings its scheduler no deliveries: others get them all."""

    async def deliveries(self, *_: object, **__: object) -> AsyncGenerator[list[Delivery], None]:
        """Wait for ever."""
        await asyncio.Event().wait()
        yield []


async def test_a_load_ends_with_an_evaluation_that_another_scheduler_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(*_: object, **__: object) -> LoadRecord:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    monkeypatch.setattr("services.scheduler.service.POLL_S", 0.05)
    monkeypatch.setattr("services.scheduler.remote_load.remote_loads.issue_load", endless)
    other = await a_run_under_way(world)
    await world.client.publish(RunReady(evaluation=E, run=RUN, attempt=1, agent="a1"), id="ready")
    await world.an_agent(script=hangs)
    stop, patient = asyncio.Event(), replace(QUICK, run_grace_s=600.0, lease_ttl_s=600.0)
    async with connect(world.server, "scheduler") as bus:
        deaf: Any = Deaf(bus)
        serving = asyncio.create_task(serve(deaf, quick(), stop, patient))
        await until_answering(world.client, "scheduler")
        async with asyncio.timeout(60):
            await begun.wait()
            await other.settle(E, cancels)
            await ended.wait()
        stop.set()
        await serving
    assert (await world.decisions(E))[-3:] == ["issued", "interrupted", "cancelled"]
