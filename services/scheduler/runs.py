"""One run as a fold: where its newest attempt is, and how earlier ones ended. Pure.

Each function returns the run after a fact about its newest attempt, said at an epoch time in ns:
the very same run where the fact does not belong to the state it is in. What agents say counts only
from the agent the attempt was started on: each may speak of any run under its name.
"""

from dataclasses import dataclass, field, replace

from schemas.evaluation import RunEnd, RunInterrupted, RunIssued, RunStarted
from schemas.plan import RunPlan
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded, Tally
from schemas.status import RunState


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the plan: where its newest attempt is and how earlier ones ended."""

    plan: RunPlan
    session: str
    agent: str
    incarnation: str = ""
    attempt: int = 0
    state: RunState = "planned"
    started_ns: int = 0
    #: when its state last changed, epoch
    since_ns: int = 0
    is_ready: bool = False
    issuer: str = ""
    issued_ns: int = 0
    #: what the agent said: '' while it has not, 'completed', or the kind of its error
    word: str = ""
    #: no other attempt follows an interruption
    is_final: bool = False
    is_stored: bool = False
    #: attempts that ended because the agent or issuer was lost, or because the worker died
    lost: int = 0
    died: int = 0
    #: attempts that were interrupted, (agent, attempt): an agent may still be at work on one
    strays: tuple[tuple[str, int], ...] = ()
    cause: str = ""
    level_note: str = ""
    caveats: tuple[str, ...] = ()
    tally: Tally = field(default_factory=Tally)
    spans: int = 0
    queries: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether an agent works on it, as far as the log tells."""
        return self.state == "started"


def started(known: Run, fact: RunStarted, time_ns: int) -> Run:
    """Return the run with a new attempt under way; an older one is none."""
    if fact.attempt <= known.attempt:
        return known
    return Run(
        plan=known.plan,
        session=known.session,
        agent=fact.agent,
        incarnation=fact.incarnation,
        attempt=fact.attempt,
        state="started",
        started_ns=fact.started_ns,
        since_ns=time_ns,
        lost=known.lost,
        died=known.died,
        strays=known.strays,
    )


def _is_its_agents(run: Run, fact: RunReady | RunCompleted | RunFailed) -> bool:
    return run.is_under_way and run.agent == fact.agent


def ready(run: Run, fact: RunReady, _: int) -> Run:
    """Return the run ready for its load."""
    return replace(run, is_ready=True) if _is_its_agents(run, fact) else run


def issued(run: Run, fact: RunIssued, time_ns: int) -> Run:
    """Return the run with who issues its load; the first has it."""
    if not run.is_under_way or run.issuer:
        return run
    return replace(run, issuer=fact.issuer, issued_ns=time_ns)


def interrupted(run: Run, fact: RunInterrupted, time_ns: int) -> Run:
    """Return the run broken off, or given up when that is final."""
    is_open = run.state in ("planned", "started", "interrupted")
    # A failed attempt that nobody can repeat is given up by a final interruption.
    is_given_up = run.state == "failed" and fact.final
    if run.is_final or not (is_open or is_given_up):
        return run
    return replace(
        run,
        state="interrupted",
        since_ns=time_ns,
        cause=fact.cause,
        is_final=fact.final,
        lost=run.lost + int(run.is_under_way),
        strays=(*run.strays, (run.agent, run.attempt)) if run.is_under_way else run.strays,
    )


def completed(run: Run, fact: RunCompleted, time_ns: int) -> Run:
    """Return the run whose load is through; its rows are still on their way."""
    if not _is_its_agents(run, fact):
        return counted(run, fact, time_ns)
    return replace(
        run,
        state="ended",
        since_ns=time_ns,
        word="completed",
        tally=fact.tally,
        level_note=fact.level_note,
        caveats=fact.caveats,
    )


def failed(run: Run, fact: RunFailed, time_ns: int) -> Run:
    """Return the run that ended badly."""
    if not _is_its_agents(run, fact):
        return counted(run, fact, time_ns)
    return replace(
        run,
        state="failed",
        since_ns=time_ns,
        word=fact.error,
        cause=f"{fact.error}: {fact.message}",
        tally=fact.tally,
        died=run.died + (fact.error == "worker_died"),
    )


def stored(run: Run, fact: RunRecorded | RunIncomplete, time_ns: int) -> Run:
    """Return the run after the collector's first word on it."""
    counts = counted(run, fact, time_ns)
    if counts is run or run.state != "ended":
        return counts
    if isinstance(fact, RunIncomplete):
        return replace(counts, state="incomplete", cause=_shortfall(fact))
    return replace(counts, state="recorded")


def _shortfall(fact: RunIncomplete) -> str:
    return f"{fact.stored_batches} of {fact.announced_batches} batches were stored"


def counted(run: Run, fact: RunCompleted | RunFailed | RunRecorded | RunIncomplete, _: int) -> Run:
    """Return the run with the counts of an attempt that was broken off, nothing else changed.

    The collector's first word counts; of an interrupted attempt the last: while its agent was
    silent it told what was there, and tells again once the agent spoke.
    """
    if isinstance(fact, RunRecorded | RunIncomplete):
        return _with_rows(run, fact)
    if run.word or run.agent != fact.agent:
        return run
    return replace(run, tally=fact.tally)


def _with_rows(run: Run, fact: RunRecorded | RunIncomplete) -> Run:
    if run.is_stored and run.state != "interrupted":
        return run
    tally = run.tally
    if isinstance(fact, RunIncomplete) and fact.failed_queries:
        tally = tally.model_copy(update={"failed_queries": fact.failed_queries})
    return replace(run, is_stored=True, spans=fact.spans, queries=fact.queries, tally=tally)


def end_of(run: Run) -> RunEnd:
    """Return how a run that is over ended; completed without the collector's word: incomplete."""
    if run.state == "incomplete" or (run.state == "ended" and not run.is_stored):
        return "incomplete"
    return "completed" if run.word == "completed" else "failed"
