"""The fold of one run: who counts its rows, and which of two reports counts."""

from collections.abc import Sequence

import pytest

from mlscope.evaluation.fold import fold
from mlscope.evaluation.run import (
    MOST_CHARACTERS,
    RunRecord,
    awaits_count,
    is_cut_off,
    shortfall_text,
)
from mlscope.evaluation.status import run_status_of
from schemas.evaluation import EvaluationCancelled, RunInterrupted, RunStarted
from schemas.message import Fact
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunRecorded, Tally
from tests.stories import AGENT, E, a_run, beginning

ABOUT = {"evaluation": E, "run": "r0", "attempt": 1}
STARTED, COMPLETED, RECORDED = a_run("r0")
LOST = RunInterrupted.model_validate(ABOUT | {"agent": AGENT, "cause": "agent lost"})
GIVEN_UP = LOST.model_copy(update={"cause": "no other agent", "final": True})
CUT_OFF = LOST.model_copy(update={"cause": "cancelled: enough", "final": True})
DIED = RunFailed.model_validate(
    ABOUT
    | {"agent": AGENT, "error": "worker_died", "message": "gone"}
    | {"tally": Tally(spans=4, queries=3, failed_queries=2)}
)
#: what the collector counts of an interrupted attempt while its agent is silent
PROVISIONAL = RunIncomplete.model_validate(
    ABOUT
    | {"spans": 7, "queries": 5, "outputs": 0, "failed_queries": 1}
    | {"announced_batches": 0, "stored_batches": 2}
)
SHORT = PROVISIONAL.model_copy(
    update={"announced_batches": 5, "stored_batches": 4, "failed_queries": 0}
)


def run_after(*facts: Fact) -> RunRecord:
    return fold([*beginning(runs=1), *facts]).runs["r0"]


def counts_after(*facts: Fact) -> tuple[int, int, int]:
    """Return the spans, answered queries and failed queries that are shown."""
    run = run_status_of(run_after(*facts))
    return run.spans, run.answered, run.failed_queries


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ([], (0, 0, 0)),
        ([COMPLETED], (300, 100, 0)),
        ([DIED], (4, 1, 2)),
        ([DIED, SHORT], (7, 3, 2)),
        ([LOST, PROVISIONAL], (7, 4, 1)),
        ([LOST, PROVISIONAL, DIED], (7, 3, 2)),
        ([LOST, PROVISIONAL, DIED, RECORDED], (300, 98, 2)),
        ([LOST, PROVISIONAL, RECORDED, PROVISIONAL], (300, 100, 0)),
        ([LOST, PROVISIONAL, PROVISIONAL.model_copy(update={"spans": 9})], (7, 4, 1)),
        ([COMPLETED, SHORT, RECORDED], (7, 5, 0)),
        ([COMPLETED, DIED], (300, 100, 0)),
    ],
)
def test_the_rows_that_are_shown(facts: Sequence[Fact], counts: tuple[int, int, int]) -> None:
    assert counts_after(STARTED, *facts) == counts
    cancelled = EvaluationCancelled(evaluation=E)
    assert counts_after(STARTED, *facts, cancelled, *facts) == counts


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([LOST, LOST.model_copy(update={"cause": "again"})], ("interrupted", "agent lost", False)),
        ([LOST, GIVEN_UP], ("interrupted", "no other agent", True)),
        ([GIVEN_UP, LOST], ("interrupted", "no other agent", True)),
        ([DIED, LOST], ("failed", "worker_died: gone", False)),
        ([DIED, GIVEN_UP], ("interrupted", "no other agent", True)),
        ([COMPLETED, GIVEN_UP], ("ended", "", False)),
    ],
)
def test_interruptions(facts: Sequence[Fact], state: tuple[str, str, bool]) -> None:
    run = run_after(STARTED, *facts)
    assert (run.state, run.cause, run.is_final) == state


def test_a_run_that_had_ended_is_not_cancelled() -> None:
    record = fold([*beginning(), STARTED, COMPLETED, EvaluationCancelled(evaluation=E)])
    assert [run.state for run in record.runs.values()] == ["ended", "cancelled"]


@pytest.mark.parametrize(
    ("facts", "state", "was_under_way"),
    [
        ([], "cancelled", True),
        ([CUT_OFF], "cancelled", True),
        ([LOST], "cancelled", False),
        ([GIVEN_UP], "interrupted", False),
        ([LOST, GIVEN_UP], "interrupted", False),
    ],
    ids=["under way", "interrupted for it", "lost", "given up", "lost, then given up"],
)
def test_a_cancellation_cuts_off_only_what_was_under_way(
    facts: Sequence[Fact], state: str, was_under_way: bool
) -> None:
    cancelled = [STARTED, *facts, EvaluationCancelled(evaluation=E, reason="enough")]
    before, counted = run_after(*cancelled), run_after(*cancelled, RECORDED)
    assert (before.state, counted.state) == (state, state)
    assert (awaits_count(before), is_cut_off(counted)) == (was_under_way, was_under_way)
    assert awaits_count(run_status_of(before)) == was_under_way
    assert is_cut_off(run_status_of(counted)) == was_under_way


def test_a_new_attempt_has_nothing_of_the_older_one() -> None:
    again = RunStarted.model_validate(
        STARTED.model_dump() | {"attempt": 2, "agent": "a2", "started_ns": 9}
    )
    run = run_after(STARTED, DIED, SHORT, again)
    assert (run.state, run.agent, run.attempt) == ("started", "a2", 2)
    assert (run.outcome, run.cause, run.announced, run.stored) == ("", "", None, None)


def test_a_shortfall_says_how_many_batches_were_stored() -> None:
    assert isinstance(COMPLETED, RunCompleted)
    assert isinstance(RECORDED, RunRecorded)
    assert shortfall_text(SHORT) == "4 of 5 batches were stored"
    assert run_after(STARTED, COMPLETED, SHORT).cause == "4 of 5 batches were stored"


def test_what_an_agent_remarks_on_a_run_is_kept_with_it() -> None:
    remarks = {"level_note": "no layers of this model", "caveats": ("a noisy host",)}
    run = run_after(STARTED, COMPLETED.model_copy(update=remarks), RECORDED)
    assert (run.level_note, run.caveats) == ("no layers of this model", ("a noisy host",))
    shown = run_status_of(run)
    assert (shown.level_note, shown.caveats) == (run.level_note, run.caveats)


def test_what_an_agent_says_is_kept_up_to_a_length() -> None:
    """Every agent may publish texts of megabytes, and lists show them to everybody."""
    long = "x" * 5_000_000
    died = run_after(STARTED, DIED.model_copy(update={"message": long}))
    assert died.cause == f"worker_died: {long}"[: MOST_CHARACTERS - 1] + "…"
    caveats = {"caveats": (long,) * 200, "level_note": long}
    ended = run_after(STARTED, COMPLETED.model_copy(update=caveats))
    assert {len(text) for text in (*ended.caveats, ended.level_note)} == {MOST_CHARACTERS}
    assert len(ended.caveats) == 100
