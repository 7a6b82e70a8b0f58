"""One run as a fold: the state of its newest attempt. Pure.

Each function returns the run after a fact about its newest attempt, or the very same object where
the fact changes nothing, as when it is folded a second time. An agent's report counts only if the
attempt was started on that agent: every agent may publish reports on any run.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from mlscope.texts.shortening import at_most
from schemas.evaluation import RunInterrupted, RunStarted
from schemas.level import Level
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.status import RowCounts, RunState, RunStatus

RUN_ENDED: frozenset[RunState] = frozenset({"recorded", "failed", "incomplete", "cancelled"})
"""States that a run leaves only when another attempt starts."""

MOST_CHARACTERS = 4000
"""Of a cause: every agent may publish longer ones, and they are in everybody's lists."""
_MOST_CAVEATS = 100

_OPEN: frozenset[RunState] = frozenset({"planned", "started", "interrupted"})


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of the plan and the state of its newest attempt.

    `planned_queries` is the number of queries in one block, `attempt` is 0 before the first start.
    """

    run: str
    session: str
    agent: str
    scenario: str
    level: Level
    batch_size: int
    planned_queries: int
    attempt: int = 0
    state: RunState = "planned"
    #: what the agent reported: '' nothing yet, 'completed', or the kind of its error
    outcome: str = ""
    #: whether no other attempt follows an interruption
    is_final: bool = False
    cause: str = ""
    level_note: str = ""
    caveats: tuple[str, ...] = ()
    #: rows that the agent published, by its own report; None before it
    announced: RowCounts | None = None
    #: rows in the database, by the collector's report; None before it
    stored: RowCounts | None = None
    #: the planned framework, with its version if it is known
    framework: str = ""

    @property
    def is_under_way(self) -> bool:
        """Whether an agent works on the newest attempt, according to the log."""
        return self.state == "started"


R = TypeVar("R", bound=RunRecord)


def start_run(run: R, fact: RunStarted) -> R:
    """Return the run with a new attempt under way; a start of an older attempt changes nothing."""
    if fact.attempt <= run.attempt:
        return run
    return replace(
        run,
        agent=fact.agent,
        attempt=fact.attempt,
        state="started",
        outcome="",
        is_final=False,
        cause="",
        level_note="",
        caveats=(),
        announced=None,
        stored=None,
    )


def interrupt_run(run: R, fact: RunInterrupted) -> R:
    """Return the run interrupted.

    An interrupted attempt, or one that failed and that nobody can repeat, is given up by a final
    interruption.
    """
    is_first = run.state in ("planned", "started")
    is_given_up = run.state in ("interrupted", "failed") and fact.final and not run.is_final
    if not is_first and not is_given_up:
        return run
    return replace(run, state="interrupted", cause=fact.cause, is_final=fact.final)


def complete_run(run: R, fact: RunCompleted) -> R:
    """Return the run after all its queries were answered; its rows are still on their way."""
    if not is_by_its_agent(run, fact):
        return count_rows(run, fact)
    return replace(
        run,
        state="ended",
        outcome="completed",
        announced=_announced(fact),
        level_note=at_most(fact.level_note, MOST_CHARACTERS),
        caveats=tuple(at_most(caveat, MOST_CHARACTERS) for caveat in fact.caveats[:_MOST_CAVEATS]),
    )


def fail_run(run: R, fact: RunFailed) -> R:
    """Return the run after its agent reported an error."""
    if not is_by_its_agent(run, fact):
        return count_rows(run, fact)
    return replace(
        run,
        state="failed",
        outcome=fact.error,
        cause=at_most(f"{fact.error}: {fact.message}", MOST_CHARACTERS),
        announced=_announced(fact),
    )


def store_run(run: R, fact: RunRecorded | RunIncomplete) -> R:
    """Return the run after the collector's report on it."""
    counted = count_rows(run, fact)
    if counted is run or run.state != "ended":
        return counted
    if isinstance(fact, RunIncomplete):
        return replace(counted, state="incomplete", cause=shortfall_text(fact))
    return replace(counted, state="recorded")


def cancellation_cause(reason: str) -> str:
    """Return the cause of runs that were under way when someone cancelled for a `reason`."""
    return f"cancelled: {reason}" if reason else "cancelled"


def cancel_run(run: R, reason: str) -> R:
    """Return the run after its evaluation was cancelled for a `reason`.

    A run that had ended or was given up stays as it was. One that was under way is final, which
    distinguishes it from one that waited for an attempt. A scheduler interrupts what is under way
    just before the cancellation, with a cause of its own.
    """
    is_given_up = run.is_final and run.cause != cancellation_cause(reason)
    if run.state not in _OPEN or is_given_up:
        return run
    return replace(run, state="cancelled", is_final=run.is_final or run.is_under_way)


def is_cut_off(run: RunRecord | RunStatus) -> bool:
    """Tell whether a cancellation cut a `run` off of which queries are stored."""
    return _was_under_way(run) and run.stored is not None and run.stored.queries > 0


def awaits_count(run: RunRecord | RunStatus) -> bool:
    """Tell whether the collector has not counted yet what a `run` has that was cut off."""
    return _was_under_way(run) and run.stored is None


def _was_under_way(run: RunRecord | RunStatus) -> bool:
    """Tell whether an agent worked on a `run` when its evaluation was cancelled."""
    return run.state == "cancelled" and (run.final if isinstance(run, RunStatus) else run.is_final)


def count_rows(run: R, fact: RunCompleted | RunFailed | RunRecorded | RunIncomplete) -> R:
    """Return the run with the rows that a report counts, its state unchanged.

    The first report of the agent counts, and the first of the collector. Where the agent of an
    interrupted attempt was silent, the collector's count is provisional: it counts again once the
    agent has reported, and that replaces the first count.
    """
    if isinstance(fact, RunRecorded | RunIncomplete):
        stored = RowCounts(spans=fact.spans, queries=fact.queries)
        if isinstance(fact, RunIncomplete):
            stored = RowCounts(
                spans=fact.spans,
                queries=fact.queries,
                failed_queries=fact.failed_queries,
                provisional=fact.announced_batches == 0,
            )
        is_news = run.stored is None or (run.stored.provisional and not stored.provisional)
        return replace(run, stored=stored) if is_news else run
    if run.announced is not None or run.agent != fact.agent:
        return run
    return replace(run, announced=_announced(fact))


def is_by_its_agent(run: RunRecord, fact: RunReady | RunCompleted | RunFailed) -> bool:
    """Tell whether a report is by the agent that works on the run."""
    return run.is_under_way and run.agent == fact.agent


def shortfall_text(fact: RunIncomplete) -> str:
    """Return the cause of an incomplete run: how many of its batches were stored."""
    return f"{fact.stored_batches} of {fact.announced_batches} batches were stored"


def _announced(fact: RunCompleted | RunFailed) -> RowCounts:
    tally = fact.tally
    return RowCounts(spans=tally.spans, queries=tally.queries, failed_queries=tally.failed_queries)
