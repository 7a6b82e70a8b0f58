"""What the log says of an evaluation, and the row an ended attempt becomes."""

from datetime import UTC, datetime

import pytest

from schemas.evaluation import EvaluationCancelled, EvaluationMeasured, RunInterrupted
from schemas.run import RunFailed, Tally
from services.collector.errors import UnplannedRun
from services.collector.runs import RunEnded, known_of, run_row
from tests.services.collector.builders import REQUESTED_NS, a_completion, a_plan, a_request

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
    known = known_of([a_request(), a_plan(), GONE])
    assert (known.requested_ns, known.plan, known.ended) == (REQUESTED_NS, PLAN, False)


@pytest.mark.parametrize(
    "end",
    [EvaluationMeasured(evaluation="e1", runs=()), EvaluationCancelled(evaluation="e1")],
)
def test_an_evaluation_ends(end: EvaluationMeasured | EvaluationCancelled) -> None:
    assert known_of([a_request(), end]).ended


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
