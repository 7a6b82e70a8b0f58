"""Evaluations as folds: what each fact changes, and when it changes nothing."""

import random

import pytest

from schemas.analysis import AnalysisCompleted, AnalysisFailed
from schemas.evaluation import (
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    EvaluationRequested,
    RunInterrupted,
    RunIssued,
    RunStarted,
)
from schemas.message import Fact
from schemas.request import AgentReason
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.status import RowCounts
from services.scheduler.evaluation.state import EvaluationState, Run, end_of, fold
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact, stored_fact

RUN = "b1-online-model"
ABOUT = {"evaluation": E, "run": RUN, "attempt": 1, "agent": "a1"}
COUNTS = {"spans": 3, "queries": 2, "outputs": 1}

READY = RunReady.model_validate(ABOUT)
ISSUED = RunIssued.model_validate(ABOUT | {"issuer": "s1"})
LOST = RunInterrupted.model_validate(ABOUT | {"cause": "lost"})
GIVEN_UP = RunInterrupted.model_validate(ABOUT | {"cause": "gone", "final": True})
DIED = RunFailed.model_validate(ABOUT | {"error": "worker_died", "message": "x"})
FAILED = RunFailed.model_validate(ABOUT | {"error": "predict", "message": "x"})
CANCELLED = EvaluationCancelled(evaluation=E, reason="enough")
COMPLETED = RunCompleted.model_validate(
    ABOUT | {"tally": {}, "conditions": {}, "origin": {"monotonic_ns": 1, "epoch_start_ns": 1}}
)
RECORDED = RunRecorded.model_validate(ABOUT | COUNTS)
SHORT = RunIncomplete.model_validate(ABOUT | COUNTS | {"announced_batches": 5, "stored_batches": 4})
AGAIN = RunStarted.model_validate(
    ABOUT | {"attempt": 2, "session": "b1", "incarnation": "i1", "started_ns": 9}
)
LATE = RunStarted.model_validate(ABOUT | {"session": "b1", "incarnation": "i9", "started_ns": 9})


def started(now_ns: int = 0) -> Story:
    """Return an evaluation whose only run was started at `now_ns`."""
    story = Story(random.Random(1), now_ns=now_ns)
    story.agents["a1"] = an_agent("a1")
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=0))
    story.settle()
    return story


def say(story: Story, *facts: Fact) -> None:
    """Add facts to a story."""
    for fact in facts:
        story.say(fact)


def after(*facts: Fact) -> Run:
    """Return the run after facts that follow its start."""
    story = started()
    say(story, *facts)
    return story.state.runs[RUN]


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([], "started"),
        ([COMPLETED], "ended"),
        ([COMPLETED, RECORDED], "recorded"),
        ([COMPLETED, SHORT], "incomplete"),
        ([RECORDED, COMPLETED], "ended"),
        ([FAILED], "failed"),
        ([FAILED, RECORDED], "failed"),
        ([FAILED, GIVEN_UP], "interrupted"),
        ([FAILED, LOST], "failed"),
        ([LOST], "interrupted"),
        ([LOST, COMPLETED], "interrupted"),
        ([LOST, FAILED], "interrupted"),
        ([LOST, AGAIN], "started"),
        ([LOST, AGAIN, COMPLETED], "started"),
        ([COMPLETED, LOST], "ended"),
        ([COMPLETED, FAILED], "ended"),
        ([GIVEN_UP, LOST], "interrupted"),
        ([LATE], "started"),
    ],
)
def test_where_a_run_is_after_facts(facts: list[Fact], state: str) -> None:
    assert after(*facts).state == state


@pytest.mark.parametrize("fact", [READY, COMPLETED, FAILED, DIED], ids=lambda fact: fact.happened)
def test_what_another_agent_says_of_a_run_changes_nothing(fact: Fact) -> None:
    assert after(fact.model_copy(update={"agent": "a2"})) == after()
    elsewhere = AGAIN.model_copy(update={"agent": "a2"})
    late = fact.model_copy(update={"attempt": 2})
    assert after(LOST, elsewhere, late) == after(LOST, elsewhere)


def test_a_completed_run_whose_rows_were_counted_before_is_stored() -> None:
    run = after(RECORDED, COMPLETED)
    assert run.stored == RowCounts(spans=3, queries=2)


def test_a_repeated_attempt_starts_anew_and_remembers_what_was_lost() -> None:
    run = after(READY, ISSUED, LOST, AGAIN)
    assert (run.is_ready, run.issuer, run.cause, run.stored) == (False, "", "", None)
    assert (run.attempt, run.attempts_lost, run.died) == (2, 1, 0)
    assert run.interrupted_attempts == (("a1", 1),)


def test_a_dead_worker_is_counted_apart_from_lost_attempts() -> None:
    run = after(DIED)
    assert (run.died, run.attempts_lost, run.cause) == (1, 0, "worker_died: x")
    assert run.interrupted_attempts == ()
    assert after(FAILED).died == 0


def test_the_first_issuer_has_it_and_only_while_it_is_under_way() -> None:
    second = ISSUED.model_copy(update={"issuer": "s2"})
    assert after(ISSUED, second).issuer == "s1"
    assert after(LOST, ISSUED).issuer == ""
    assert not after(LOST, READY).is_ready
    assert after(READY).is_ready


def test_an_older_start_of_an_attempt_changes_nothing() -> None:
    assert after(LATE).incarnation == "i1"


def test_the_collectors_first_word_counts() -> None:
    more = RECORDED.model_copy(update={"spans": 99})
    run = after(COMPLETED, SHORT, more)
    assert (run.state, run.cause) == ("incomplete", "4 of 5 batches were stored")
    assert run.stored == RowCounts(spans=3, queries=2)


def test_of_an_interrupted_attempt_the_collectors_last_word_counts() -> None:
    cut = SHORT.model_copy(update={"announced_batches": 0, "failed_queries": 1})
    run = after(LOST, cut)
    assert (run.state, run.cause) == ("interrupted", "lost")
    assert run.stored == RowCounts(spans=3, queries=2, failed_queries=1, provisional=True)
    again = after(LOST, cut, RECORDED.model_copy(update={"queries": 9}))
    assert again.stored == RowCounts(spans=3, queries=9)


def test_an_attempt_is_lost_once() -> None:
    run = after(LOST, LOST.model_copy(update={"cause": "again"}), GIVEN_UP)
    assert (run.attempts_lost, run.cause, run.interrupted_attempts) == (1, "gone", (("a1", 1),))


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        ([COMPLETED, RECORDED], "completed"),
        ([COMPLETED], "incomplete"),
        ([COMPLETED, SHORT], "incomplete"),
        ([FAILED], "failed"),
        ([GIVEN_UP], "failed"),
        ([GIVEN_UP, CANCELLED], "failed"),
        ([CANCELLED], "cancelled"),
    ],
)
def test_how_a_run_that_is_over_ended(facts: list[Fact], end: str) -> None:
    assert end_of(after(*facts)) == end


def test_nothing_is_started_once_all_is_measured() -> None:
    story = started()
    story.say(completed_fact(story.state.runs[RUN], 1, story.dice))
    story.say(stored_fact(story.state.runs[RUN], 1, story.dice))
    story.settle()
    assert story.state.state == "measured"
    story.say(AGAIN)
    assert (story.state.state, story.state.runs[RUN].attempt) == ("measured", 1)


def test_facts_before_the_request_change_nothing() -> None:
    story = Story(random.Random(1))
    say(story, EvaluationCancelled(evaluation=E), READY, LOST)
    assert story.state == EvaluationState()


def test_a_second_request_and_a_second_plan_change_nothing() -> None:
    story = started()
    [planned] = [r.fact for r in story.log if isinstance(r.fact, EvaluationPlanned)]
    before = (story.state.request, story.state.plan, story.state.runs)
    other = EvaluationRequested(evaluation=E, request=a_request(warmup=9), requested_ns=9)
    say(story, other, planned)
    assert (story.state.request, story.state.plan, story.state.runs) == before


def test_refusals_are_those_told_last() -> None:
    story = Story(random.Random(1))
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=0))
    old, new = (AgentReason(agent="a1", reason=text) for text in ("old", "new"))
    story.say(EvaluationPostponed(evaluation=E, agents=(old,), until_ns=7))
    assert (story.state.state, story.state.until_ns) == ("postponed", 7)
    silent = EvaluationFailed(evaluation=E, cause="x")
    telling = EvaluationFailed(evaluation=E, cause="x", agents=(new,))
    for fact, refusals in ((silent, (old,)), (telling, (new,))):
        known = Story(random.Random(1), state=story.state, log=list(story.log))
        known.say(fact)
        assert known.state.refusals == refusals


def test_a_story_goes_on_from_where_it_was_folded() -> None:
    story = started()
    begun = fold(story.log)
    say(story, READY, COMPLETED)
    assert fold(story.log[-2:], begun) == fold(story.log) == story.state
    assert fold(story.log, begun) == story.state, "facts that were folded change nothing"
    assert fold(story.log[:1], story.state) is story.state


def test_of_an_ended_evaluation_nobody_is_ready_and_nothing_is_issued() -> None:
    story = started()
    story.cancel()
    before = story.state
    say(story, READY, ISSUED, AnalysisFailed(evaluation=E, cause="x"))
    assert story.state is before


def test_a_later_plan_leaves_the_runs_that_are_known() -> None:
    story = started(now_ns=5)
    say(story, READY, ISSUED, LOST, AGAIN)
    run, plan = story.state.runs[RUN], story.state.plan
    assert plan is not None
    (session,) = plan.sessions
    more = [each.model_copy(update={"run": "b1-online-more"}) for each in session.runs]
    sessions = (session, session.model_copy(update={"session": "more", "runs": tuple(more)}))
    wider = plan.model_copy(update={"sessions": sessions})
    story.now_ns = 99
    story.say(EvaluationPlanned(evaluation=E, plan=wider, revision=2))
    assert story.state.runs[RUN] is run
    assert story.state.runs["b1-online-more"].plan == more[0]
    assert (story.state.plan, story.state.planned_ns) == (wider, 5)


def test_what_the_analyzer_reported_is_kept_for_the_decision() -> None:
    story = started()
    failed = AnalysisFailed(evaluation=E, cause="no rows")
    say(story, EvaluationMeasured(evaluation=E, runs=()), failed)
    assert (story.state.state, story.state.analysis_failed) == ("measured", "no rows")
    story.say(AnalysisCompleted(evaluation=E, tables=("latency",)))
    assert story.state.analyzed == ("latency",)


def test_decisions_are_told_from_what_others_say_by_their_sequence() -> None:
    story = started()
    decided = story.state.decided
    assert decided == story.state.sequence == len(story.log)
    story.say(READY)
    assert (story.state.decided, story.state.sequence) == (decided, decided + 1)
    assert story.state.last_id == story.log[-1].envelope.id
