"""The shared fold of an evaluation's facts: each counts once, from whom it may come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.evaluation.fold import EvaluationRecord, evolve, fold
from mlscope.evaluation.status import status_of
from schemas.evaluation import (
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    MeasuredRun,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Fact
from schemas.request import AgentReason, Evaluate
from schemas.run import RunFailed, RunIncomplete, RunRecorded
from schemas.status import EvaluationStatus, RunStatus
from tests.stories import AGENT, E, a_plan, a_run, beginning, ending, whole_story


def status_after(*facts: Fact) -> EvaluationStatus:
    return status_of(fold(facts))


def run_after(*facts: Fact) -> RunStatus:
    """Return the first run after facts that follow the plan."""
    return status_after(*beginning(), *facts).runs[0]


def test_a_good_evaluation_ends_analyzed() -> None:
    status = status_after(*whole_story())
    assert status.state == "analyzed"
    assert status.tables == ("latency",)
    assert [(r.state, r.answered, r.spans) for r in status.runs] == [("recorded", 100, 300)] * 2


@given(st.data())
def test_facts_folded_again_change_nothing(data: st.DataObject) -> None:
    story = whole_story()
    end = data.draw(st.integers(0, len(story)))
    first = data.draw(st.integers(0, end))
    record = fold(story[:end])
    for fact in story[first:end]:
        assert evolve(record, fact) is record


def test_states_follow_the_runs() -> None:
    states = [fold(whole_story()[:n]).state for n in range(1, 11)]
    assert states == ["requested", "planned", *["running"] * 6, "measured", "analyzed"]


def test_nothing_is_folded_before_the_request() -> None:
    assert fold(whole_story()[1:]) == EvaluationRecord()


def test_a_failed_run_stays_failed_when_its_rows_are_recorded() -> None:
    started, _, recorded = a_run("r0")
    failed = RunFailed(
        evaluation=E, run="r0", attempt=1, agent=AGENT, error="open", message="no such file"
    )
    run = run_after(started, failed, recorded)
    assert (run.state, run.cause, run.outcome) == ("failed", "open: no such file", "open")


def test_a_new_attempt_begins_anew_and_older_facts_are_forgotten() -> None:
    lost = RunInterrupted(evaluation=E, run="r0", attempt=1, agent=AGENT, cause="agent lost")
    again = RunStarted(evaluation=E, run="r0", session="s0", attempt=2, agent="a2", started_ns=1)
    started, completed, _ = a_run("r0")
    run = run_after(started, lost, again, completed)
    assert (run.state, run.attempt, run.agent, run.answered) == ("started", 2, "a2", 0)


@pytest.mark.parametrize("changes", [{"agent": "a9"}, {"attempt": 2}])
def test_only_the_agent_an_attempt_was_started_on_ends_it(changes: dict[str, object]) -> None:
    started, completed, recorded = a_run("r0")
    foreign = type(completed).model_validate(completed.model_dump() | changes)
    failed = {"error": "open", "message": "made up"} | foreign.model_dump()
    before = fold([*beginning(), started])
    assert evolve(before, foreign) is before
    assert evolve(before, RunFailed.model_validate(failed)) is before
    early = evolve(before, recorded)
    assert early.runs["r0"].state == "started"
    assert fold([completed, recorded], before).runs["r0"].state == "recorded"


def test_a_run_nobody_started_is_not_ended_by_anybody() -> None:
    _, completed, recorded = a_run("r0")
    before = fold(beginning())
    assert fold([completed, recorded], before) is before


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_collector_alone_begins_and_ends_no_attempt(attempt: int) -> None:
    recorded = RunRecorded(evaluation=E, run="r0", attempt=attempt, spans=1, queries=1, outputs=0)
    run = run_after(a_run("r0")[0], recorded)
    assert (run.state, run.attempt) == ("started", 1)


def test_an_interrupted_attempt_still_has_counts() -> None:
    started, completed, _ = a_run("r0")
    lost = RunInterrupted(evaluation=E, run="r0", attempt=1, agent=AGENT, cause="agent lost")
    run = run_after(started, lost, completed)
    assert (run.state, run.cause) == ("interrupted", "agent lost")
    assert (run.answered, run.spans) == (100, 300)


def test_a_status_shows_what_was_planned() -> None:
    status = status_after(*beginning())
    assert (status.model, status.framework, status.device) == ("tiny:1.0.0", "onnxruntime", "cpu")


def test_missing_batches_are_counted() -> None:
    started, completed, _ = a_run("r0")
    short = RunIncomplete(
        evaluation=E,
        run="r0",
        attempt=1,
        spans=0,
        queries=9,
        outputs=0,
        announced_batches=5,
        stored_batches=3,
    )
    run = run_after(started, completed, short)
    assert (run.state, run.cause) == ("incomplete", "3 of 5 batches were stored")


def test_a_run_that_nobody_counted_ends_as_it_was_measured() -> None:
    started, completed, recorded = a_run("r0")
    silent = MeasuredRun(run="r0", attempt=1, end="incomplete", agent=AGENT, cause="silent")
    measured = EvaluationMeasured(evaluation=E, runs=(silent,))
    record = fold((*beginning(), started, completed, measured))
    run, other = status_of(record).runs
    assert (run.state, run.cause, other.state) == ("incomplete", "silent", "planned")
    assert evolve(record, measured) is record
    assert evolve(record, recorded).runs["r0"].state == "incomplete"


def test_cancelling_ends_what_had_not_ended() -> None:
    cancelled = EvaluationCancelled(evaluation=E, reason="enough")
    status = status_after(*beginning(), *a_run("r0"), cancelled)
    assert (status.state, status.cause) == ("cancelled", "enough")
    assert [run.state for run in status.runs] == ["recorded", "cancelled"]


def test_a_failure_names_its_cause() -> None:
    record = fold([*beginning(), EvaluationFailed(evaluation=E, cause="no run was measured")])
    assert (record.state, record.cause) == ("failed", "no run was measured")
    assert fold(ending(), record).state == "failed"


WAITS = EvaluationPostponed(
    evaluation=E, agents=(AgentReason(agent="a1", reason="too small"),), until_ns=7
)


def test_an_evaluation_waits_for_an_agent_until_it_is_planned() -> None:
    requested, planned = beginning()
    waiting = fold([requested, WAITS])
    assert (waiting.state, waiting.refusals) == ("postponed", WAITS.agents)
    record = fold([planned, WAITS], waiting)
    assert (record.state, record.refusals) == ("planned", ())


def test_who_asked_is_known_from_the_request_on() -> None:
    requested = beginning()[0].model_copy(update={"requested_by": "ada", "requested_ns": 5})
    record = fold([requested])
    assert (record.requested_by, record.requested_ns, record.state) == ("ada", 5, "requested")
    again = requested.model_copy(update={"requested_by": "eve", "requested_ns": 6})
    assert fold([again], record) is record


def test_a_later_plan_adds_its_runs_to_those_under_way() -> None:
    started = a_run("r0")[0]
    before = fold([*beginning(), started])
    more = EvaluationPlanned(evaluation=E, plan=a_plan(runs=3, queries=9), revision=2)
    record = evolve(before, more)
    assert [(run.run, run.state) for run in record.runs.values()] == [
        ("r0", "started"),
        ("r1", "planned"),
        ("r2", "planned"),
    ]
    assert [run.planned_queries for run in record.runs.values()] == [100, 100, 9]
    assert record.runs["r0"] is before.runs["r0"]


def test_the_same_plan_again_or_one_after_the_end_adds_nothing() -> None:
    before = fold([*beginning(), a_run("r0")[0]])
    unrevised = EvaluationPlanned(evaluation=E, plan=a_plan(runs=3))
    assert evolve(before, unrevised) is before
    same = EvaluationPlanned(evaluation=E, plan=a_plan(runs=2), revision=1)
    assert evolve(before, same) is before
    measured = fold(ending()[:1], before)
    assert evolve(measured, unrevised.model_copy(update={"revision": 1})) is measured


def test_what_only_the_asker_and_owners_see_is_private() -> None:
    requested = beginning()[0]
    request = Evaluate(model="tiny", visibility="private")
    assert fold([requested.model_copy(update={"request": request})]).is_private
    assert not fold([requested]).is_private
    assert not EvaluationRecord().is_private
