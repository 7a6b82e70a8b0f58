"""What the log says of an evaluation, and the row an ended attempt becomes."""

from datetime import UTC, datetime

import pytest

from schemas.batch import Batch
from schemas.evaluation import EvaluationCancelled, EvaluationMeasured, RunInterrupted
from schemas.run import RunFailed, Tally
from services.collector.errors import ForeignFact, UnplannedRun, UnstartedAttempt
from services.collector.runs import RunEnded, check_speaker, fold_decisions, run_row
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_request,
    a_start,
    some_outputs,
    some_queries,
)

PLAN = a_plan().plan
GONE = RunInterrupted(evaluation="e1", run="r0", attempt=1, agent="a1", cause="agent lost")
FAILED = RunFailed(
    evaluation="e1",
    run="r0",
    attempt=1,
    agent="a1",
    error="predict",
    message="shape mismatch",
    tally=Tally(trace_batches=2, spans=700),
)


def test_decisions_fold_to_what_is_known() -> None:
    known = fold_decisions([a_request(), a_plan(), GONE])
    assert (known.requested_ns, known.plan, known.ended) == (REQUESTED_NS, PLAN, False)


@pytest.mark.parametrize(
    "end",
    [EvaluationMeasured(evaluation="e1", runs=()), EvaluationCancelled(evaluation="e1")],
)
def test_an_evaluation_ends(end: EvaluationMeasured | EvaluationCancelled) -> None:
    assert fold_decisions([a_request(), end]).ended


@pytest.mark.parametrize(
    ("fact", "outcome", "state", "error", "spans"),
    [
        (a_completion(), "completed", "ended", "", 4),
        (FAILED, "failed", "ended", "predict", 700),
        (GONE, "interrupted", "interrupted", "interrupted", 0),
    ],
)
def test_an_end_becomes_a_row(
    fact: RunEnded, outcome: str, state: str, error: str, spans: int
) -> None:
    row = run_row(fact, PLAN, REQUESTED_NS, "c0")
    found = (row["outcome"], row["state"], row["error"], row["spans"])
    assert found == (outcome, state, error, spans)
    assert (row["model"], row["session"], row["level_asked"]) == ("identity", "s0", 2)


def test_rows_begin_when_the_evaluation_was_requested() -> None:
    row = run_row(a_completion(), PLAN, 1_500_000_000_123_456_789, "c0")
    assert row["ts"] == datetime(2017, 7, 14, 2, 40, 0, 123456, tzinfo=UTC)


def test_a_run_no_plan_holds_is_named() -> None:
    with pytest.raises(UnplannedRun, match="plans no run r9"):
        run_row(a_completion(run="r9"), PLAN, REQUESTED_NS, "c0")


@pytest.mark.parametrize("says", ["a1", "scheduler"])
def test_queries_of_a_remote_run_are_its_agent_s_or_the_scheduler_s_to_tell(says: str) -> None:
    known = fold_decisions([a_request(), a_plan("remote"), a_start()])
    check_speaker(known, some_queries(agent=says))


@pytest.mark.parametrize(
    ("pacing", "fact"),
    [
        ("local", some_queries(agent="scheduler")),
        ("remote", some_queries(agent="a2")),
        ("remote", some_outputs(agent="scheduler")),
        ("remote", a_completion(agent="scheduler")),
        ("local", a_completion(agent="a2")),
        ("local", FAILED.model_copy(update={"agent": "a2"})),
    ],
)
def test_what_is_another_s_to_tell_is_foreign(pacing: str, fact: Batch | RunFailed) -> None:
    known = fold_decisions([a_request(), a_plan(pacing), a_start(), a_start(agent=fact.agent)])
    message = f"^{fact.agent} published a fact about r0, attempt 1, which a1 runs"
    with pytest.raises(ForeignFact, match=message):
        check_speaker(known, fact)


def test_of_an_attempt_nobody_started_nobody_may_tell() -> None:
    known = fold_decisions([a_request(), a_plan(), a_start()])
    with pytest.raises(UnstartedAttempt, match="no attempt 2 of r0"):
        check_speaker(known, a_completion(attempt=2))
