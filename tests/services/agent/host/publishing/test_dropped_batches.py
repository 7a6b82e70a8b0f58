"""What is not safe is not announced, but counted."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.batches import Attempt, query_batch, trace_batch
from schemas.run import ClockOrigin, Conditions, RunCompleted, RunFailed, Tally
from services.agent.host.publishing.dropped_batches import (
    DroppedBatches,
    batch_counts,
    with_stored_counts,
)

NAMES = {"trace_batches": "spans", "query_batches": "queries", "output_batches": "outputs"}
FULL = "the stream is full"


def completed(tally: Tally) -> RunCompleted:
    return RunCompleted(
        evaluation="e1",
        run="r0",
        attempt=1,
        agent="a1",
        tally=tally,
        origin=ClockOrigin(monotonic_ns=1, epoch_start_ns=1),
        conditions=Conditions(),
        caveats=("seen before",),
    )


def failed(tally: Tally) -> RunFailed:
    return RunFailed(
        evaluation="e1",
        run="r0",
        attempt=1,
        agent="a1",
        error="stopped",
        message="cancelled",
        tally=tally,
    )


def test_a_batch_counts_itself_and_its_rows() -> None:
    row = (1, -1, 2, 0, 1, 1, 1, 0, 0, b"")
    fact = trace_batch(Attempt("e1", "r0", 1, "a1"), 0, [row, row], {"query": 0})
    assert batch_counts(fact) == {"trace_batches": 1, "spans": 2}


def test_queries_that_failed_are_counted_apart() -> None:
    rows = [(n, 0, 1, -1, n, n, n + 1, 1, status, "") for n, status in enumerate((0, 1, 2))]
    fact = query_batch(Attempt("e1", "r0", 1, "a1"), 0, rows)
    assert batch_counts(fact) == {"query_batches": 1, "queries": 3, "failed_queries": 2}


def test_what_is_all_safe_is_said_as_it_is() -> None:
    outcome = completed(Tally(trace_batches=2, spans=9, dropped_batches=1))
    assert (
        with_stored_counts(outcome, {"trace_batches": 2, "spans": 9}, DroppedBatches()) is outcome
    )


def test_a_completed_run_gets_a_caveat() -> None:
    outcome = completed(Tally(trace_batches=5, spans=50, failed_queries=3, dropped_batches=1))
    dropped = DroppedBatches({"trace_batches": 1, "spans": 10}, FULL)
    said = with_stored_counts(outcome, {"trace_batches": 4, "spans": 40}, dropped)
    assert isinstance(said, RunCompleted)
    assert said.tally == Tally(trace_batches=3, spans=30, failed_queries=3, dropped_batches=3)
    assert said.caveats == ("seen before", "2 batches were dropped: the stream is full")


def test_a_failed_run_says_it_in_its_message() -> None:
    dropped = DroppedBatches({"query_batches": 1, "queries": 7}, FULL)
    counts = {"query_batches": 1, "queries": 7}
    said = with_stored_counts(failed(Tally(**counts)), counts, dropped)
    assert said == failed(Tally(dropped_batches=1)).model_copy(
        update={"message": "cancelled; 1 batches were dropped: the stream is full"}
    )


BATCHES = st.lists(st.tuples(st.sampled_from(sorted(NAMES)), st.integers(1, 500)), max_size=20)


@given(stored=BATCHES, refused=BATCHES, never_put=BATCHES)
def test_every_batch_is_either_announced_or_dropped(
    stored: list[tuple[str, int]],
    refused: list[tuple[str, int]],
    never_put: list[tuple[str, int]],
) -> None:
    handed = _counted(stored + refused + never_put)
    outcome = completed(Tally(**handed))
    said = with_stored_counts(
        outcome, _counted(stored + refused), DroppedBatches(_counted(refused), FULL)
    )
    assert said.tally.dropped_batches == len(refused) + len(never_put)
    counts = said.tally.model_dump(exclude={"dropped_batches", "failed_queries"})
    assert Counter(counts) == _counted(stored)


def _counted(batches: list[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, rows in batches:
        counts.update({name: 1, NAMES[name]: rows})
    return counts
