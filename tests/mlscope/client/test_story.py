"""The fold of an evaluation's facts: any repeat or delay of facts changes nothing in the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.client.story import evolve, unheard
from schemas.evaluation import EvaluationCancelled, EvaluationFailed, RunInterrupted, RunStarted
from schemas.message import Fact
from schemas.run import RunFailed, RunIncomplete, RunRecorded
from schemas.status import EvaluationStatus
from tests.stories import AGENT, E, a_run, beginning, ending, whole_story


def told(*facts: Fact, status: EvaluationStatus | None = None) -> EvaluationStatus:
    status = status or unheard(E)
    for fact in facts:
        status = evolve(status, fact)
    return status


def test_a_good_evaluation_ends_analyzed() -> None:
    status = told(*whole_story())
    assert status.state == "analyzed"
    assert status.tables == ("latency",)
    assert [(r.state, r.answered, r.spans) for r in status.runs] == [("recorded", 100, 300)] * 2


@given(st.data())
def test_facts_heard_again_change_nothing(data: st.DataObject) -> None:
    story = whole_story()
    place = data.draw(st.integers(0, len(story)))
    first = data.draw(st.integers(0, place))
    status = told(*story[:place])
    assert told(*story[first:place], status=status) == status


def test_states_follow_the_runs() -> None:
    states = [told(*whole_story()[:n]).state for n in range(1, 11)]
    assert states == ["requested", "planned", *["running"] * 6, "measured", "analyzed"]


def test_a_failed_run_stays_failed_when_its_rows_are_recorded() -> None:
    started, _, recorded = a_run("r0")
    failed = RunFailed(
        evaluation=E, run="r0", attempt=1, agent=AGENT, error="open", message="no such file"
    )
    run = told(*beginning(), started, failed, recorded).runs[0]
    assert (run.state, run.cause) == ("failed", "open: no such file")


def test_a_new_attempt_begins_anew_and_older_facts_are_forgotten() -> None:
    lost = RunInterrupted(evaluation=E, run="r0", attempt=1, agent=AGENT, cause="agent lost")
    again = RunStarted(evaluation=E, run="r0", session="s0", attempt=2, agent="a2", started_ns=1)
    started, completed, _ = a_run("r0")
    run = told(*beginning(), started, lost, again, completed).runs[0]
    assert (run.state, run.attempt, run.agent, run.answered) == ("started", 2, "a2", 0)


@pytest.mark.parametrize("changes", [{"agent": "a9"}, {"attempt": 2}])
def test_only_the_agent_an_attempt_was_started_on_ends_it(changes: dict[str, object]) -> None:
    started, completed, recorded = a_run("r0")
    foreign = type(completed).model_validate(completed.model_dump() | changes)
    before = told(*beginning(), started)
    assert told(foreign, status=before) == before
    failed = {"error": "open", "message": "made up"} | foreign.model_dump()
    assert told(RunFailed.model_validate(failed), status=before) == before
    assert told(recorded, status=before) == before
    assert told(completed, recorded, status=before).runs[0].state == "recorded"


def test_a_run_nobody_started_is_not_ended_by_anybody() -> None:
    _, completed, recorded = a_run("r0")
    before = told(*beginning())
    assert told(completed, recorded, status=before) == before


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_collector_alone_begins_no_attempt(attempt: int) -> None:
    before = told(*beginning(), a_run("r0")[0])
    recorded = RunRecorded(evaluation=E, run="r0", attempt=attempt, spans=1, queries=1, outputs=0)
    assert told(recorded, status=before) == before


def test_an_attempt_that_was_broken_off_still_has_counts() -> None:
    started, completed, _ = a_run("r0")
    lost = RunInterrupted(evaluation=E, run="r0", attempt=1, agent=AGENT, cause="agent lost")
    run = told(*beginning(), started, lost, completed).runs[0]
    assert (run.state, run.cause, run.answered, run.spans) == (
        "interrupted",
        "agent lost",
        100,
        300,
    )


def test_what_was_planned_is_told() -> None:
    status = told(*beginning())
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
    run = told(*beginning(), started, completed, short).runs[0]
    assert (run.state, run.cause) == ("incomplete", "2 of 5 batches never came")


def test_cancelling_ends_what_had_not_ended() -> None:
    status = told(*beginning(), *a_run("r0"), EvaluationCancelled(evaluation=E, reason="enough"))
    assert (status.state, status.cause) == ("cancelled", "enough")
    assert [run.state for run in status.runs] == ["recorded", "cancelled"]


def test_a_failure_names_its_cause() -> None:
    status = told(*beginning(), EvaluationFailed(evaluation=E, cause="no run was measured"))
    assert (status.state, status.cause) == ("failed", "no run was measured")
    assert told(*ending(), status=status).state == "failed"
