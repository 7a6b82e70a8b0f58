"""One run: what it gathers, and what is noted beside its numbers."""

from pathlib import Path
from typing import Any

import pytest

from mlscope.load.errors import LoadError
from schemas.level import Level
from schemas.run import RunCompleted, RunFailed
from services.agent.errors import RunTimedOut
from services.agent.link.failures import failed_before_start
from services.agent.link.issued_load import LATENESS
from services.agent.worker.control import Control
from services.agent.worker.measurement import Measurement, traceable_level
from services.agent.worker.queries.query import Query
from services.agent.worker.session import Session
from tests.services.agent.builders import a_run, an_order

MS = 1_000_000


def a_measurement(session: Session, *, has_room: bool = True, **run: Any) -> Measurement:
    """Return a run that is about to begin."""
    plan = a_run(**run)
    order = an_order(runs=(plan,))
    return Measurement.of(session, order, plan, Control(), lambda _: has_room)


def measured(run: Measurement, *queries: Query) -> None:
    """Do a block of these queries."""
    done = run.new_block()
    for query in queries:
        done(query)
    run.end_block(0)


def a_query(
    index: int = 0, issued_ns: int = 10, service_ns: int = 5, error: str = "", **more: Any
) -> Query:
    """Return a query that is done; with an `error` it failed."""
    query = Query(index, [0], issued_ns, **more)
    if error:
        query.fail(error)
    query.started_ns, query.ended_ns = issued_ns, issued_ns + service_ns
    return query


def completed(run: Measurement) -> RunCompleted:
    """Return its good end."""
    outcome = run.outcome()
    assert isinstance(outcome, RunCompleted), outcome
    return outcome


def test_a_block_s_median_is_of_queries_answered_well(session: Session) -> None:
    run = a_measurement(session)
    measured(run, *(a_query(service_ns=time) for time in (1, 30, 7)), a_query(error="torn"))
    (block,) = completed(run).blocks
    assert (block.queries, block.median_ns, run.medians) == (3, 7, [7])


def test_a_run_of_failed_predictions_alone_failed(session: Session) -> None:
    run = a_measurement(session)
    measured(run, a_query(error="predict: no memory"))
    outcome = run.outcome()
    assert isinstance(outcome, RunFailed)
    assert (outcome.error, outcome.message) == ("predict", "predict: no memory")


def test_one_good_answer_is_enough_to_complete(session: Session) -> None:
    run = a_measurement(session)
    measured(run, a_query(), a_query(error="predict: no memory"))
    assert completed(run).blocks[0].queries == 1


@pytest.mark.parametrize(("late_ns", "notes"), [(MS // 2, 0), (3 * MS, 1)])
def test_late_issue_is_noted(session: Session, late_ns: int, notes: int) -> None:
    run = a_measurement(session)
    measured(run, *(a_query(n, issued_ns=n + late_ns, due_ns=n) for n in range(5)))
    outcome = completed(run)
    assert outcome.conditions.noise[LATENESS] == late_ns
    assert outcome.caveats == ("queries were issued late: p99 3.00 ms",) * notes


@pytest.mark.parametrize(
    ("ahead_ns", "caveats"),
    [
        (3_600_000 * MS, ("the wall clock moved by 3600000.0 ms",)),
        (-300_000 * MS, ("the wall clock moved by -300000.0 ms",)),
        (MS // 10, ()),
    ],
)
def test_a_step_of_the_wall_clock_is_named(
    session: Session, monkeypatch: pytest.MonkeyPatch, ahead_ns: int, caveats: tuple[str, ...]
) -> None:
    run = a_measurement(session)
    measured(run, a_query())
    origin = run.origin
    stamps = (origin.monotonic_ns + MS, origin.epoch_start_ns + MS + ahead_ns)
    monkeypatch.setattr("mlscope.tracing.clock.paired_stamps", lambda: stamps)
    assert completed(run).caveats == caveats


def test_what_a_closed_loop_issues_is_never_late(session: Session) -> None:
    run = a_measurement(session)
    measured(run, a_query())
    assert LATENESS not in completed(run).conditions.noise


@pytest.mark.parametrize(("scenario", "notes"), [("fixed_rate", 1), ("online", 0)])
def test_an_open_load_that_piles_up_is_an_overload(
    session: Session, scenario: str, notes: int
) -> None:
    rate: dict[str, Any] = {"rate_hz": 1000} if notes else {}
    run = a_measurement(session, scenario=scenario, queries=100, **rate)
    done = run.new_block()
    for index in range(100):
        query = a_query(index, issued_ns=index * MS)
        query.started_ns, query.ended_ns = index * 10 * MS, (index + 1) * 10 * MS
        done(query)
    run.end_block(0)
    note = "block 0: overload: 100 queries arrived within 0.10 s and were served within 0.99 s"
    assert completed(run).caveats == (note,) * notes


def test_a_query_answered_in_part_counts_and_its_bad_samples_are_noted(session: Session) -> None:
    run = a_measurement(session)
    partial = a_query(service_ns=9)
    partial.samples = [0, 1]
    partial.fail_samples({1: "sample 1: decode: torn"})
    measured(run, partial)
    run.recorder.query((0, 0, 2, -1, 1, 1, 2, 1, 0, partial.error), partial.failed_samples)
    outcome = completed(run)
    assert (outcome.blocks[0].queries, outcome.blocks[0].median_ns) == (1, 9)
    assert outcome.caveats == (
        "1 samples failed in queries that were answered in part, first: sample 1: decode: torn",
    )


def test_dropped_batches_are_noted(session: Session) -> None:
    run = a_measurement(session, has_room=False)
    run.recorder.query((0, 0, 1, -1, 1, 1, 2, 1, 0, ""))
    run.recorder.flush()
    outcome = completed(run)
    assert (outcome.tally.queries, outcome.tally.dropped_batches) == (0, 1)
    assert outcome.caveats == ("1 batches were dropped: ring and spool were full",)


def test_a_broken_run_keeps_its_conditions_and_tally(session: Session) -> None:
    run = a_measurement(session, scenario="poisson", rate_hz=100, seed=11)
    run.recorder.query((0, 0, 1, -1, 1, 1, 2, 1, 0, ""))
    run.recorder.flush()
    run.error = RunTimedOut(3.0, "the run")
    outcome = run.outcome()
    assert isinstance(outcome, RunFailed)
    assert (outcome.error, outcome.tally.queries) == ("timeout", 1)
    assert outcome.origin is not None
    assert (outcome.conditions.seed, outcome.level) == (11, Level.MODEL)


def test_a_run_that_never_began_has_nothing() -> None:
    outcome = failed_before_start(an_order(), "r0", RunTimedOut(3.0, "opening"))
    assert (outcome.error, outcome.origin, outcome.tally.queries) == ("timeout", None, 0)


@pytest.mark.parametrize("level", [Level.NONE, Level.MODEL, Level.FRAMEWORK])
def test_a_level_that_can_be_traced_needs_no_note(session: Session, level: Level) -> None:
    assert traceable_level(level, session) == (level, "")


def test_a_level_too_deep_is_explained(session: Session) -> None:
    level, note = traceable_level(Level.SYSTEM, session)
    assert level == Level.FRAMEWORK
    told = "level system was requested, but onnxruntime on this agent can only be traced down to "
    assert note == f"{told}level framework"


def test_a_load_that_is_none_is_an_error(session: Session, tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        a_measurement(session, scenario="no-such-scenario")
