"""Evaluations from request to end, over a bus, with a scripted agent."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from mlscope.load import LoadError
from mlscope.load.load import Load
from mlscope.load.time_limit import in_time
from schemas.evaluation import EvaluationMeasured, RunStarted
from schemas.message import Fact
from schemas.request import Accepted, Refused
from schemas.subjects import decisions_of
from services.scheduler.decision_log import DecisionLog
from services.scheduler.evaluation.index import digest_of_log
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement import load_shapes
from services.scheduler.placement.fleet import Limits
from services.scheduler.placement.load_shapes import LoadShape
from services.scheduler.service import limits_of
from tests.services.scheduler.doubles import ScriptedAgent, hangs, scripted
from tests.services.scheduler.samples import a_request
from tests.services.scheduler.worlds import QUICK, World, a_world, quick, scheduling


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as lent:
        yield lent


async def settled(agent: ScriptedAgent, orders: int) -> None:
    """Wait until an agent has so many orders."""
    for _ in range(6000):
        if len(agent.orders) >= orders:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(agent.orders)} orders, not {orders}")


async def test_a_request_becomes_an_analyzed_evaluation(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent()
        evaluation = await world.evaluate(a_request())
        status = await world.becomes(evaluation, "analyzed")
        await asyncio.sleep(0.05)
    decisions = await world.decisions(evaluation)
    assert decisions == ["requested", "planned", "started", "measured", "analyzed"]
    (run,) = status.runs
    assert (run.run, run.state, run.attempt) == ("b1-online-model", "recorded", 1)
    assert status.address == f"http://gateway/evaluations/{evaluation}"
    assert agent.closes == ["b1"]


async def test_groups_of_a_session_and_sessions_of_an_agent_go_in_order(world: World) -> None:
    request = a_request(
        scenarios=["online", "batched"], batch_sizes=[1, 4], trace_level="framework"
    )
    async with scheduling(world):
        agent = await world.an_agent()
        await world.becomes(await world.evaluate(request), "analyzed")
    assert [order.runs for order in agent.orders] == [
        ("b1-online-model", "b1-online-framework"),
        ("b1-batched-model", "b1-batched-framework"),
        ("b4-batched-model", "b4-batched-framework"),
    ]


async def test_a_group_is_one_order_however_slowly_its_starts_are_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls come between them."""
    monkeypatch.setattr("services.scheduler.service.POLL_S", 0.2)
    record = DecisionLog.record

    async def slowly(
        log: DecisionLog, state: EvaluationState, facts: Sequence[Fact], position: int = 0
    ) -> int:
        for fact in facts:
            position = await record(log, state, [fact], position)
            await asyncio.sleep(0.5 if isinstance(fact, RunStarted) else 0.0)
        return position

    monkeypatch.setattr(DecisionLog, "record", slowly)
    async with scheduling(world):
        agent = await world.an_agent()
        request = a_request(trace_level="framework")
        await world.becomes(await world.evaluate(request), "analyzed", within_s=30.0)
    assert [order.runs for order in agent.orders] == [("b1-online-model", "b1-online-framework")]


async def test_spread_all_runs_on_every_agent_that_fits(world: World) -> None:
    async with scheduling(world):
        agents = [await world.an_agent(name) for name in ("a1", "a2")]
        status = await world.becomes(await world.evaluate(a_request(spread="all")), "analyzed")
    assert [len(agent.orders) for agent in agents] == [1, 1]
    assert {run.run for run in status.runs} == {"a1-b1-online-model", "a2-b1-online-model"}


async def test_evaluations_wait_for_their_turn_on_an_agent(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=hangs)
        first, second = [await world.evaluate(a_request()) for _ in range(2)]
        await world.becomes(second, "planned")
        await settled(agent, 1)
        assert [order.evaluation for order in agent.orders] == [first]
        await agent.say(agent.orders[0], "b1-online-model", "complete")
        await settled(agent, 2)
    assert [order.evaluation for order in agent.orders] == [first, second]


async def test_a_busy_agent_is_asked_again(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(refuses=["busy"])
        await world.becomes(await world.evaluate(a_request()), "analyzed")
    assert len(agent.orders) == 1


async def test_a_dead_worker_is_tried_again_and_then_given_up(world: World) -> None:
    async with scheduling(world):
        await world.an_agent(script=scripted("worker_died", "complete"))
        status = await world.becomes(await world.evaluate(a_request()), "analyzed")
        assert status.runs[0].attempt == 2
        agent = await world.an_agent("a2", script=scripted(*["worker_died"] * 5))
        request = a_request(agents=["a2"])
        status = await world.becomes(await world.evaluate(request), "failed")
    assert len(agent.orders) == 3
    assert status.cause == "worker_died: as scripted"


async def test_another_error_is_final(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=scripted("assets"))
        status = await world.becomes(await world.evaluate(a_request()), "failed")
    assert len(agent.orders) == 1
    assert status.cause == "assets: as scripted"


async def test_what_was_measured_counts_beside_a_failed_run(world: World) -> None:
    request = a_request(scenarios=["online", "batched"])
    async with scheduling(world):
        await world.an_agent(script=scripted("batch_size", "complete"))
        status = await world.becomes(await world.evaluate(request), "analyzed")
    assert [run.state for run in status.runs] == ["failed", "recorded"]


@pytest.mark.parametrize("how", ["lost", "left"])
async def test_another_agent_takes_over_from_one_that_vanishes(world: World, how: str) -> None:
    async with scheduling(world):
        gone = await world.an_agent("a1", script=hangs)
        evaluation = await world.evaluate(a_request())
        await settled(gone, 1)
        other = await world.an_agent("a2")
        await gone.enter(how)
        status = await world.becomes(evaluation, "analyzed")
    assert [(run.agent, run.attempt) for run in status.runs] == [("a2", 2)]
    assert [order.attempt for order in other.orders] == [2]
    assert "interrupted" in await world.decisions(evaluation)


async def test_a_stand_in_waits_for_its_turn_as_everyone_does(world: World) -> None:
    async with scheduling(world):
        gone = await world.an_agent("a1", script=hangs)
        first = await world.evaluate(a_request())
        await settled(gone, 1)
        other = await world.an_agent("a2", script=hangs)
        asked = [await world.evaluate(a_request(agents=["a2"])) for _ in range(2)]
        await settled(other, 1)
        await gone.enter("lost")
        await asyncio.sleep(2.5)
        assert [order.evaluation for order in other.orders] == asked[:1]
        await other.say(other.orders[0], "b1-online-model", "complete")
        await settled(other, 2)
    assert other.orders[1].evaluation == first, "it was asked for before the other one"


async def test_an_agent_started_anew_gets_its_run_again(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=scripted("hang", "complete"))
        evaluation = await world.evaluate(a_request())
        await settled(agent, 1)
        announcement = agent.status.announcement.model_copy(update={"incarnation": "i2"})
        agent.status = agent.status.model_copy(update={"announcement": announcement})
        await agent.enter()
        status = await world.becomes(evaluation, "analyzed")
    assert status.runs[0].attempt == 2


async def test_the_only_agent_gone_for_good_fails_the_evaluation_with_the_cause(
    world: World,
) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=hangs)
        evaluation = await world.evaluate(a_request())
        await settled(agent, 1)
        await agent.enter("lost")
        status = await world.becomes(evaluation, "failed")
    assert status.cause == "agent a1 was lost; no other agent fits"


async def test_a_run_that_never_ends_is_ended(world: World) -> None:
    limits = Limits(run_grace_s=0.1, stored_wait_s=0.1)
    async with scheduling(world, limits):
        agent = await world.an_agent(script=hangs)
        evaluation = await world.evaluate(a_request(run_timeout_s=0.1))
        status = await world.becomes(evaluation, "failed")
        await asyncio.sleep(0.1)
    assert status.cause.startswith("time-out")
    assert ("b1-online-model", 1) in agent.stops


async def test_cancelling_stops_the_run_and_keeps_what_was_said(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=hangs)
        evaluation = await world.evaluate(a_request())
        await settled(agent, 1)
        assert isinstance(await world.cancel(evaluation), Accepted)
        status = await world.status(evaluation)
        again = await world.cancel(evaluation)
        await asyncio.sleep(0.1)
    assert (status.state, status.cause) == ("cancelled", "enough")
    assert isinstance(again, Accepted)
    assert again.repeated
    assert agent.stops == [("b1-online-model", 1)]
    assert agent.closes == ["b1"]


async def test_the_complete_runs_of_a_cancelled_evaluation_are_analyzed(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=scripted("complete", "hang"))
        evaluation = await world.evaluate(a_request(scenarios=["online", "batched"]))
        await settled(agent, 2)
        await world.cancel(evaluation)
        status = await world.analyzed(evaluation)
    log = await world.client.read(decisions_of(evaluation))
    (measured,) = [each.fact for each in log if isinstance(each.fact, EvaluationMeasured)]
    assert [(run.run, run.end, run.queries) for run in measured.runs] == [
        ("b1-online-model", "completed", 5)
    ]
    assert (status.state, status.tables) == ("cancelled", ("latency",))


async def test_what_a_cancellation_cuts_off_is_analyzed_once_it_is_counted(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=scripted("complete", "hang"), answered=3)
        evaluation = await world.evaluate(a_request(scenarios=["online", "batched"]))
        await settled(agent, 2)
        await world.cancel(evaluation)
        status = await world.analyzed(evaluation)
    log = await world.client.read(decisions_of(evaluation))
    (measured,) = [each.fact for each in log if isinstance(each.fact, EvaluationMeasured)]
    assert [(run.run, run.end, run.queries, run.cause) for run in measured.runs] == [
        ("b1-online-model", "completed", 5, ""),
        ("b1-batched-model", "cancelled", 3, "cancelled: enough"),
    ]
    assert (status.state, status.tables) == ("cancelled", ("latency",))


async def test_a_cancelled_evaluation_without_rows_is_not_analyzed(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent(script=hangs)
        evaluation = await world.evaluate(a_request())
        await settled(agent, 1)
        await world.cancel(evaluation)
        await world.counted(evaluation)
    assert "measured" not in await world.decisions(evaluation)


async def test_an_ended_evaluation_cannot_be_cancelled(world: World) -> None:
    async with scheduling(world):
        await world.an_agent()
        evaluation = await world.evaluate(a_request())
        await world.becomes(evaluation, "analyzed")
        refused = await world.cancel(evaluation)
    assert isinstance(refused, Refused)
    assert refused.error == "conflict"


async def test_without_an_agent_a_request_is_refused_or_waits(world: World) -> None:
    async with scheduling(world):
        refused = await world.ask(a_request())
        assert isinstance(refused, Refused)
        assert refused.error == "unsatisfiable"
        evaluation = await world.evaluate(a_request(wait_s=30))
        await world.becomes(evaluation, "postponed")
        await world.an_agent()
        await world.becomes(evaluation, "analyzed")


async def test_waiting_for_an_agent_ends(world: World) -> None:
    async with scheduling(world):
        agent = await world.an_agent()
        await agent.enter("lost")
        evaluation = await world.evaluate(a_request(wait_s=0.2))
        status = await world.becomes(evaluation, "failed")
    assert status.refusals[0].reason == "lost: its lease is gone"


async def test_the_same_key_is_the_same_evaluation(world: World) -> None:
    async with scheduling(world):
        await world.an_agent()
        request = a_request(key="nightly")
        first, again = await world.ask(request), await world.ask(request)
        other = await world.ask(a_request(key="nightly", warmup=9))
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert first.evaluation == again.evaluation
    assert (first.repeated, again.repeated) == (False, True)
    assert isinstance(other, Refused)
    assert (other.error, other.field) == ("conflict", "key")


async def test_the_same_key_at_once_is_one_evaluation(world: World) -> None:
    async with scheduling(world), scheduling(world):
        await world.an_agent()
        requests = [a_request(key="k", warmup=number % 2) for number in range(10)]
        answers = await asyncio.gather(*(world.ask(request) for request in requests))
    accepted = {answer.evaluation for answer in answers if isinstance(answer, Accepted)}
    assert len(accepted) == 1
    assert sum(isinstance(answer, Refused) for answer in answers) == 5


@pytest.mark.parametrize(
    ("body", "error", "field"),
    [
        (b"{}", "malformed", "model"),
        (b'{"model": "tiny", "color": "red"}', "malformed", "color"),
        (b"\xc1", "malformed", ""),
        (b'{"model": "tiiny"}', "unknown", "model"),
        (b'{"model": "tiny", "scenarios": ["bathced"]}', "unknown", "scenarios.0.name"),
        (
            b'{"model": "tiny", "scenarios": [{"name": "poisson", "parameters": {"rate_hz": -1}}]}',
            "invalid",
            "scenarios.0.parameters.rate_hz",
        ),
        (b'{"model": "tiny", "framework": "tensorflow"}', "invalid", "framework.name"),
    ],
)
async def test_a_bad_request_names_what_offends(
    world: World, body: bytes, error: str, field: str
) -> None:
    async with scheduling(world):
        await world.an_agent()
        answer = await world.client.ask("mlscope.v1.request.evaluate", body)
    assert body == b"\xc1" or answer.startswith(b"{")
    if answer.startswith(b"{"):
        told = json.loads(answer)
        assert (told["error"], told["field"]) == (error, field)


async def test_a_refusal_nobody_waits_for_is_buried(world: World) -> None:
    async with scheduling(world):
        await world.client.publish_live("mlscope.v1.request.evaluate", b'{"model": "none"}')
        for _ in range(6000):
            letters = await world.client.read("mlscope.v1.dead.>")
            if letters:
                break
            await asyncio.sleep(0.01)
    assert "nothing is named 'none'" in str(letters[0].fact)


async def test_a_killed_scheduler_goes_on_where_the_log_stands(world: World) -> None:
    with contextlib.suppress(RuntimeError):
        async with scheduling(world):
            agent = await world.an_agent(script=hangs)
            evaluation = await world.evaluate(a_request())
            await settled(agent, 1)
    await agent.say(agent.orders[0], "b1-online-model", "complete")
    async with scheduling(world):
        await world.becomes(evaluation, "analyzed")
    assert len(agent.orders) == 1


async def test_two_schedulers_decide_everything_once(world: World) -> None:
    async with scheduling(world), scheduling(world):
        agents = [await world.an_agent(name) for name in ("a1", "a2")]
        request = a_request(scenarios=["online", "batched"], batch_sizes=[1, 2], spread="all")
        evaluations = [await world.evaluate(request) for _ in range(5)]
        for evaluation in evaluations:
            await world.becomes(evaluation, "analyzed")
            decisions = await world.decisions(evaluation)
            assert decisions.count("started") == 6
            assert len(decisions) == 6 + 4
    assert sum(len(agent.orders) for agent in agents) == 5 * 6


async def test_the_digest_is_that_of_the_log(world: World) -> None:
    async with scheduling(world):
        await world.an_agent()
        done = await world.evaluate(a_request())
        await world.becomes(done, "analyzed")
        await world.evaluate(a_request(agents=["nobody"], wait_s=60))
        await asyncio.sleep(1.2)
        told = await world.stats()
        log = await world.client.read("mlscope.v1.*.>")
    assert told["digest"] == digest_of_log(log)
    assert told["sequence"] == log[-1].sequence


async def test_a_load_that_cannot_be_issued_ends_the_run_with_the_cause(world: World) -> None:
    """There is no server for the issuer to connect to; each attempt says so, the last for good."""
    limits = replace(QUICK, attempts_lost=2, run_grace_s=60)
    request = a_request(scenarios=["poisson"])
    async with scheduling(world, limits):
        agent = await world.an_agent(script=lambda _, __: "ready")
        status = await world.becomes(await world.evaluate(request), "failed")
    assert "its load could not be issued" in status.cause
    assert [order.attempt for order in agent.orders] == [1, 2]
    assert agent.stops[0] == ("b1-poisson-model", 1)


@pytest.mark.parametrize("fault", [ValueError("odd"), MemoryError(), LoadError("none")])
async def test_a_load_that_breaks_in_any_way_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def breaks(*_: object) -> None:
        raise fault

    monkeypatch.setattr("services.scheduler.remote_load.remote_loads.continuation_of_run", breaks)
    async with scheduling(world, replace(QUICK, attempts_lost=1, run_grace_s=60)):
        await world.an_agent(script=lambda _, __: "ready")
        evaluation = await world.evaluate(a_request(scenarios=["poisson"]))
        status = await world.becomes(evaluation, "failed")
    reason = str(fault) or "MemoryError"
    assert status.cause == f"its load could not be issued: {reason}"


async def test_a_remote_load_that_is_never_made_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    path = "services.scheduler.remote_load.remote_loads"
    monkeypatch.setattr(f"{path}.continuation_of_run", lambda *_: is_over.wait(30))
    monkeypatch.setattr(f"{path}.in_time", lambda _, make: in_time("mine", make, 0.05))
    async with scheduling(world, replace(QUICK, attempts_lost=1, run_grace_s=60)):
        await world.an_agent(script=lambda _, __: "ready")
        evaluation = await world.evaluate(a_request(scenarios=["poisson"]))
        status = await world.becomes(evaluation, "failed")
    is_over.set()
    assert "'mine' of another package made no load within" in status.cause


async def test_loads_are_made_once_and_not_in_the_event_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[threading.Thread] = []

    def watched(load: Load) -> LoadShape:
        made.append(threading.current_thread())
        return shape_of(load)

    shape_of = load_shapes._shape_of
    monkeypatch.setattr(load_shapes, "_shape_of", watched)
    async with scheduling(world):
        await world.becomes(await world.evaluate(a_request(wait_s=30)), "postponed")
        await world.an_agent()
        await world.becomes(await world.evaluate(a_request()), "analyzed")
    assert [thread is threading.current_thread() for thread in made] == [False]


async def test_open_evaluations_are_bounded_and_further_ones_refused_politely(
    world: World,
) -> None:
    async with scheduling(world, settings=quick(max_open_evaluations=3)):
        request = a_request(wait_s=60)
        answers = [await world.ask(request) for _ in range(5)]
    assert [isinstance(answer, Accepted) for answer in answers] == [True] * 3 + [False] * 2
    assert isinstance(answers[-1], Refused)
    assert answers[-1].error == "busy"


async def test_a_burst_is_bounded_to_the_request(world: World) -> None:
    """Requests that are weighed at the same time count as well as those that are open."""
    async with scheduling(world, settings=quick(max_open_evaluations=3)):
        asked = [world.ask(a_request(wait_s=60)) for _ in range(200)]
        answers = await asyncio.gather(*asked)
        told = await world.stats()
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert (told["open"], len(refused)) == (3, 197)
    assert {answer.error for answer in refused} == {"busy"}


async def test_a_refusal_leaves_room_for_the_next_request(world: World) -> None:
    async with scheduling(world, settings=quick(max_open_evaluations=1)):
        for _ in range(3):
            refused = await world.ask(a_request(model="none"))
            assert isinstance(refused, Refused)
            assert refused.error == "unknown"
        assert isinstance(await world.ask(a_request(wait_s=60)), Accepted)


async def test_lists_show_the_newest_first(world: World) -> None:
    async with scheduling(world):
        await world.an_agent()
        ids = [await world.evaluate(a_request()) for _ in range(3)]
        page = json.loads(await world.client.ask("mlscope.v1.request.evaluations", b'{"limit": 2}'))
    assert [listed["evaluation"] for listed in page["evaluations"]] == [ids[2], ids[1]]


def test_limits_are_what_an_operator_sets() -> None:
    limits = limits_of(quick(run_attempts=2, agent_grace_s=7, analysis_wait_s=9, lease_ttl_s=0.3))
    assert (limits.attempts_lost, limits.agent_grace_s) == (2, 7)
    assert (limits.analysis_wait_s, limits.lease_ttl_s) == (9, 0.3)


@pytest.mark.parametrize(("deadline_s", "failed_s", "completed_s"), [(1, 3, 900), (100, 300, 1500)])
def test_waits_for_the_collector_are_longer_than_its_own_deadline(
    deadline_s: float, failed_s: float, completed_s: float
) -> None:
    limits = limits_of(quick(batch_deadline_s=deadline_s))
    assert (limits.stored_wait_s, limits.recording_wait_s) == (failed_s, completed_s)
