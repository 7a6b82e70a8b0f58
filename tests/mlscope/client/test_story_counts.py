"""What a watcher counts is what the scheduler tells: two folds of the same facts."""

from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.bus.bus import Recorded
from mlscope.client.story import evolve, unheard
from schemas.evaluation import EvaluationCancelled, RunInterrupted, RunStarted
from schemas.message import Envelope, Fact
from schemas.run import (
    ClockOrigin,
    Conditions,
    RunCompleted,
    RunFailed,
    RunIncomplete,
    RunRecorded,
    Tally,
)
from schemas.status import EvaluationStatus
from schemas.subjects import subject_of
from services.scheduler.state import fold
from services.scheduler.status import status_of
from tests.stories import AGENT, E, a_run, beginning

ROWS = st.integers(0, 9)


@st.composite
def agents_words(draw: st.DrawFn, attempt: int) -> Fact:
    """Return how an agent says that a run ended, and what it published."""
    queries = draw(ROWS)
    tally = Tally(spans=draw(ROWS), queries=queries, failed_queries=draw(st.integers(0, queries)))
    whose = {"evaluation": E, "run": "r0", "attempt": attempt, "agent": AGENT, "tally": tally}
    if draw(st.booleans()):
        return RunFailed(**whose, error="worker_died", message="gone")
    origin = ClockOrigin(monotonic_ns=0, epoch_start_ns=0)
    return RunCompleted(**whose, origin=origin, conditions=Conditions())


@st.composite
def collectors_words(draw: st.DrawFn, attempt: int, told: Tally | None) -> Fact:
    """Return what a collector says is stored: all that was announced, or what there is."""
    whose = {"evaluation": E, "run": "r0", "attempt": attempt, "outputs": 0}
    if told is not None and draw(st.booleans()):
        return RunRecorded(**whose, spans=told.spans, queries=told.queries)
    batches = {"announced_batches": 0 if told is None else 9, "stored_batches": 3}
    stored, failed = draw(ROWS), draw(ROWS) if told is None else 0
    return RunIncomplete(
        **whose, **batches, spans=draw(ROWS), queries=stored, failed_queries=min(failed, stored)
    )


@st.composite
def attempts(draw: st.DrawFn) -> Sequence[Fact]:
    """Return one run's attempts: broken off or failed, each, and told of however late.

    An agent's word is in a log once, as a repeat has the same id; only before it does a collector
    tell what there is so far.
    """
    facts: list[Fact] = []
    for attempt in range(1, draw(st.integers(1, 2)) + 1):
        whose = {"evaluation": E, "run": "r0", "attempt": attempt, "agent": AGENT}
        facts.append(RunStarted(**whose, session="s0", started_ns=1))
        word = draw(st.none() | agents_words(attempt))
        in_time = word is not None and draw(st.booleans())
        facts += [word] if in_time and word is not None else []
        if draw(st.booleans()):
            facts.append(RunInterrupted(**whose, cause="agent lost", final=draw(st.booleans())))
            if not in_time and draw(st.booleans()):
                facts.append(draw(collectors_words(attempt, None)))
        if word is not None and draw(st.booleans()):
            facts += [] if in_time else [word]
            facts.append(draw(collectors_words(attempt, word.tally)))  # type: ignore[attr-defined]
    if draw(st.booleans()):
        facts.append(EvaluationCancelled(evaluation=E, reason="enough"))
    return facts


def log_of(facts: Sequence[Fact]) -> Iterator[Recorded]:
    """Yield facts as a log keeps them."""
    for number, fact in enumerate(facts, 1):
        envelope = Envelope.around(fact, id=f"id{number}", cause="", time_ns=number)
        yield Recorded(subject_of(fact), number, envelope, fact)


def counts(status: EvaluationStatus) -> list[tuple[str, int, str, int, int, int]]:
    """Return where each run is, and its counts."""
    return [
        (run.state, run.attempt, run.agent, run.spans, run.answered, run.failed_queries)
        for run in status.runs
    ]


@given(attempts())
@settings(deadline=None)
def test_a_watcher_counts_what_the_scheduler_tells(facts: Sequence[Fact]) -> None:
    story = [*beginning(runs=1), *facts]
    watched = unheard(E)
    for fact in story:
        watched = evolve(watched, fact)
    assert counts(watched) == counts(status_of(fold(log_of(story)), ""))


def test_a_run_that_had_ended_is_not_cancelled() -> None:
    started, completed, _ = a_run("r0")
    story = [*beginning(), started, completed, EvaluationCancelled(evaluation=E, reason="enough")]
    watched = unheard(E)
    for fact in story:
        watched = evolve(watched, fact)
    assert [run.state for run in watched.runs] == ["ended", "cancelled"]
    assert counts(watched) == counts(status_of(fold(log_of(story)), ""))


def test_what_is_stored_of_a_run_that_was_broken_off_is_counted() -> None:
    whose = {"evaluation": E, "run": "r0", "attempt": 1}
    watched = unheard(E)
    for fact in (
        *beginning(runs=1),
        RunStarted(**whose, session="s0", agent=AGENT, started_ns=1),
        RunInterrupted(**whose, agent=AGENT, cause="agent lost"),
        RunIncomplete(
            **whose,
            spans=7,
            queries=5,
            outputs=0,
            announced_batches=0,
            stored_batches=2,
            failed_queries=1,
        ),
    ):
        watched = evolve(watched, fact)
    (run,) = watched.runs
    assert (run.state, run.spans, run.answered, run.failed_queries) == ("interrupted", 7, 4, 1)
