"""What is said of an ended attempt follows from numbers alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.run import RunIncomplete, RunRecorded
from services.collector.completeness import Progress, StoredRows, WaitingAttempt, decide

WAITING = WaitingAttempt(
    run_key=1,
    evaluation="e1",
    run="r0",
    attempt=1,
    cause="c0",
    announced=(2, 1, 0),
    stored=(1, 1, 0),
    rows=StoredRows(spans=500, queries=3, outputs=0),
)


def test_missing_batches_are_waited_for() -> None:
    assert decide(WAITING, 9.0, deadline_s=10.0) is None


def test_past_the_deadline_the_numbers_are_told() -> None:
    fact = decide(replace(WAITING, batches=4), 9.0, deadline_s=9.0)
    assert isinstance(fact, RunIncomplete)
    assert (fact.announced_batches, fact.stored_batches, fact.spans) == (3, 2, 500)
    assert fact.batches == 4


@pytest.mark.parametrize("waited_s", [0.0, 1e6])
def test_complete_is_recorded_however_late(waited_s: float) -> None:
    fact = decide(replace(WAITING, stored=(2, 1, 0), batches=4), waited_s, deadline_s=10.0)
    assert fact == RunRecorded(
        evaluation="e1", run="r0", attempt=1, spans=500, queries=3, outputs=0, batches=4
    )


def test_queries_that_an_issuer_has_not_announced_are_waited_for() -> None:
    failed = replace(WAITING, announced=(2, 0, 0), stored=(2, 0, 0), may_get_queries=True)
    assert decide(failed, 1.9, deadline_s=60.0) is None
    assert isinstance(decide(failed, 2.0, deadline_s=60.0), RunRecorded)
    assert decide(failed, 29.9, deadline_s=86_400.0) is None
    assert isinstance(decide(failed, 30.0, deadline_s=86_400.0), RunRecorded)


def test_an_interrupted_attempt_is_never_complete_and_counts_past_the_deadline() -> None:
    nothing = (0, 0, 0)
    cut = replace(WAITING, announced=nothing, stored=nothing, batches=3, is_interrupted=True)
    assert decide(cut, 9.0, deadline_s=10.0) is None
    fact = decide(cut, 9.0, deadline_s=9.0)
    assert isinstance(fact, RunIncomplete)
    assert (fact.announced_batches, fact.stored_batches, fact.spans) == (0, 3, 500)


def test_the_time_without_a_batch_is_our_own() -> None:
    other = replace(WAITING, run_key=2)
    progress = Progress()
    assert progress.waited_s([WAITING], 100.0) == {1: 0.0}
    assert progress.waited_s([WAITING, other], 130.0) == {1: 30.0, 2: 0.0}
    gained = replace(WAITING, batches=1)
    assert progress.waited_s([gained, other], 140.0) == {1: 0.0, 2: 10.0}
    spoke = replace(gained, cause="c1")
    assert progress.waited_s([spoke], 150.0) == {1: 0.0}
    assert progress.waited_s([other], 160.0) == {2: 0.0}


_COUNTS = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(announced=_COUNTS, stored=_COUNTS)
def test_recorded_means_that_every_announced_batch_is_stored(
    announced: tuple[int, ...], stored: tuple[int, ...]
) -> None:
    fact = decide(replace(WAITING, announced=announced, stored=stored), 9.0, deadline_s=0.0)
    assert isinstance(fact, RunRecorded) == (announced == stored)
