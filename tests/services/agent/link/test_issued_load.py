"""What an issuer says of its load becomes part of the run's end."""

from schemas.run import ClockOrigin, Conditions, RunCompleted, RunFailed, Tally
from services.agent.link.issued_load import LATE_NS, LATENESS, IssuedLoad

COUNTS = {"query_batches": 3, "queries": 40, "failed_queries": 0}
ORIGIN = ClockOrigin(monotonic_ns=1, epoch_start_ns=1)


def a_completed() -> RunCompleted:
    return RunCompleted(
        evaluation="e1",
        run="r0",
        attempt=1,
        agent="a1",
        tally=Tally(trace_batches=2, spans=80),
        origin=ORIGIN,
        conditions=Conditions(),
        caveats=("seen before",),
    )


def test_a_load_without_fault_adds_no_caveat() -> None:
    said = IssuedLoad.of(COUNTS).added_to(a_completed())
    assert isinstance(said, RunCompleted)
    assert said.tally == Tally(trace_batches=2, spans=80, query_batches=3, queries=40)
    assert said.caveats == ("seen before",)
    assert LATENESS not in said.conditions.noise


def test_failed_lost_and_late_queries_are_caveats() -> None:
    words = {**COUNTS, "failed_queries": 7, "lost_queries": 2, "late_p99_ns": 3 * LATE_NS}
    said = IssuedLoad.of(words).added_to(a_completed())
    assert isinstance(said, RunCompleted)
    assert said.caveats[1:] == (
        "7 of 40 queries failed",
        "2 of 40 queries got no answer",
        "queries were issued late: p99 3.00 ms",
    )
    assert said.conditions.noise[LATENESS] == 3 * LATE_NS


def test_a_failed_run_keeps_the_issuer_s_numbers() -> None:
    failed = RunFailed(
        evaluation="e1", run="r0", attempt=1, agent="a1", error="timeout", message="", tally=Tally()
    )
    said = IssuedLoad.of({**COUNTS, "late_p99_ns": 5}).added_to(failed)
    assert (said.tally.queries, said.conditions.noise) == (40, {LATENESS: 5})


def test_how_a_load_ended_is_a_condition_and_what_it_lacks_the_last_caveat() -> None:
    words = {**COUNTS, "lost_queries": 2, "blocks_ended": "budget", "stop_caveat": "ended at 200"}
    said = IssuedLoad.of(words).added_to(a_completed())
    assert isinstance(said, RunCompleted)
    assert said.conditions.blocks_ended == "budget"
    assert said.caveats[1:] == ("2 of 40 queries got no answer", "ended at 200")
