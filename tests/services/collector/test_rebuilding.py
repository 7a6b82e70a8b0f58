"""What the log says of an attempt, from its counts alone."""

from dataclasses import replace

import pytest

from schemas.run import RunIncomplete, RunRecorded
from services.collector.completeness import StoredRows, WaitingAttempt, decide
from services.collector.rebuilding import Counted, Settlement, settlement_of

STOPPED = WaitingAttempt(
    run_key=1,
    evaluation="e1",
    run="r0",
    attempt=1,
    cause="c0",
    announced=(2, 0, 1),
    stored=(2, 0, 1),
    rows=StoredRows(spans=500, queries=10, outputs=64),
    batches=4,
)
"""The agent of a stopped remote run does not announce the queries, which the scheduler issued."""
CUT = replace(STOPPED, stored=(1, 0, 1), batches=3)
GIVEN_UP = replace(CUT, announced=(0, 0, 0), stored=(0, 0, 0), is_interrupted=True)


@pytest.mark.parametrize(
    ("attempt", "state"),
    [(STOPPED, "recorded"), (CUT, "incomplete"), (GIVEN_UP, "interrupted")],
    ids=["stopped", "cut", "given up"],
)
def test_what_was_stored_when_it_was_counted_is_not_late(
    attempt: WaitingAttempt, state: str
) -> None:
    counted = decide(attempt, 9.0, deadline_s=9.0)
    assert counted is not None
    assert settlement_of(attempt, counted) == Settlement(state, attempt.batches)
    grown = replace(attempt, rows=StoredRows(spans=900, queries=20, outputs=99), batches=7)
    assert settlement_of(grown, counted) == Settlement(state, attempt.batches)


ABOUT = {"evaluation": "e1", "run": "r0", "attempt": 1, "spans": 500, "queries": 10, "outputs": 64}


@pytest.mark.parametrize(
    ("counted", "batches"),
    [
        (RunRecorded(**ABOUT), 3),
        (RunIncomplete(**ABOUT, announced_batches=3, stored_batches=2), 2),
    ],
    ids=["recorded", "incomplete"],
)
def test_an_older_log_says_how_many_announced_batches_were_stored(
    counted: Counted, batches: int
) -> None:
    assert settlement_of(STOPPED, counted) == Settlement(counted.happened, batches)


@pytest.mark.parametrize("kind", ["spans", "queries", "outputs"])
def test_an_attempt_that_lacks_rows_that_were_counted_is_not_settled(kind: str) -> None:
    counted = decide(STOPPED, 9.0, deadline_s=9.0)
    assert counted is not None
    fewer = replace(STOPPED.rows, **{kind: getattr(STOPPED.rows, kind) - 1})
    assert settlement_of(replace(STOPPED, rows=fewer), counted) is None
