"""One evaluation as a fold of what was said of it. Pure.

Every transition asks for the attempt and state it belongs to, so a fact said twice, or one of
an attempt that is over, changes nothing. An ended evaluation changes no more but in its counts:
rows are still on their way when it is broken off. What agents say counts only from the agent the
attempt was started on: each may speak of any run under its name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mlscope.bus.bus import Recorded
from schemas.analysis import AnalysisCompleted, AnalysisFailed
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    EvaluationRequested,
    RunEnd,
    RunInterrupted,
    RunIssued,
    RunStarted,
)
from schemas.message import Fact
from schemas.plan import Plan, RunPlan
from schemas.request import AgentReason, Evaluate
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded, Tally
from schemas.status import RunState, State

ENDS: frozenset[State] = frozenset({"analyzed", "failed", "cancelled"})


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


def _no_runs() -> Mapping[str, Run]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EvaluationState:
    """Where one evaluation is. `evaluation` is empty before it was requested."""

    evaluation: str = ""
    state: State = "requested"
    request: Evaluate | None = None
    requested_ns: int = 0
    planned_ns: int = 0
    measured_ns: int = 0
    until_ns: int = 0
    plan: Plan | None = None
    runs: Mapping[str, Run] = field(default_factory=_no_runs)
    refusals: tuple[AgentReason, ...] = ()
    tables: tuple[str, ...] = ()
    #: what the analyzer said: its tables, or the cause of its failure
    analyzed: tuple[str, ...] | None = None
    analysis_failed: str = ""
    cause: str = ""
    #: last sequence folded, last one of a decision, and the id of the last fact
    sequence: int = 0
    decided: int = 0
    last_id: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it was ever requested."""
        return bool(self.evaluation)

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDS


Step = Callable[[EvaluationState, Recorded], EvaluationState]


def evolve(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    """Return the state after a fact of this evaluation; facts come in the log's order."""
    if recorded.sequence <= state.sequence:
        return state
    step = (_COUNTS if state.is_ended else _STEPS).get(type(recorded.fact))
    if step is None or (not state.is_known and step is not _requested):
        return state
    after = step(state, recorded)
    is_decision = recorded.fact.entity == "evaluation"
    return replace(
        after,
        sequence=recorded.sequence,
        decided=recorded.sequence if is_decision else after.decided,
        last_id=recorded.envelope.id,
    )


def fold(log: Iterable[Recorded], state: EvaluationState | None = None) -> EvaluationState:
    """Return the state that a story leads to, from nothing or from `state`."""
    state = EvaluationState() if state is None else state
    for recorded in log:
        state = evolve(state, recorded)
    return state


def _requested(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, EvaluationRequested)
    if state.is_known:
        return state
    return replace(
        state,
        evaluation=fact.evaluation,
        request=fact.request,
        requested_ns=fact.requested_ns,
    )


def _postponed(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, EvaluationPostponed)
    if state.state != "requested":
        return state
    return replace(state, state="postponed", refusals=fact.agents, until_ns=fact.until_ns)


def _planned(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, EvaluationPlanned)
    if state.plan is not None:
        return state
    runs = {
        run.run: Run(plan=run, session=session.session, agent=session.agent)
        for session in fact.plan.sessions
        for run in session.runs
    }
    return replace(
        state,
        state="planned",
        plan=fact.plan,
        runs=runs,
        refusals=fact.plan.refusals,
        planned_ns=recorded.envelope.time_ns,
    )


def _with(state: EvaluationState, run: Run) -> EvaluationState:
    return replace(state, runs={**state.runs, run.plan.run: run})


def _started(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunStarted)
    known = state.runs.get(fact.run)
    if known is None or fact.attempt <= known.attempt or state.state == "measured":
        return state
    run = Run(
        plan=known.plan,
        session=known.session,
        agent=fact.agent,
        incarnation=fact.incarnation,
        attempt=fact.attempt,
        state="started",
        started_ns=fact.started_ns,
        since_ns=recorded.envelope.time_ns,
        lost=known.lost,
        died=known.died,
        strays=known.strays,
    )
    return replace(_with(state, run), state="running")


def _current(state: EvaluationState, fact: Fact) -> Run | None:
    """Return the run a fact is about, when it is about its newest attempt."""
    run = state.runs.get(getattr(fact, "run", ""))
    return run if run is not None and run.attempt == getattr(fact, "attempt", 0) else None


def _told_by_its_agent(
    state: EvaluationState, fact: RunReady | RunCompleted | RunFailed
) -> Run | None:
    """Return the run under way that a fact is about, when the agent it was started on says so."""
    run = _current(state, fact)
    is_heard = run is not None and run.is_under_way and run.agent == fact.agent
    return run if is_heard else None


def _ready(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunReady)
    run = _told_by_its_agent(state, fact)
    if run is None:
        return state
    return _with(state, replace(run, is_ready=True))


def _issued(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunIssued)
    run = _current(state, fact)
    if run is None or not run.is_under_way or run.issuer:
        return state
    return _with(state, replace(run, issuer=fact.issuer, issued_ns=recorded.envelope.time_ns))


def _interrupted(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunInterrupted)
    run = _current(state, fact)
    is_open = run is not None and run.state in ("planned", "started", "interrupted")
    # A failed attempt that nobody can repeat is given up by a final interruption.
    is_given_up = run is not None and run.state == "failed" and fact.final
    if run is None or run.is_final or not (is_open or is_given_up):
        return state
    changed = replace(
        run,
        state="interrupted",
        since_ns=recorded.envelope.time_ns,
        cause=fact.cause,
        is_final=fact.final,
        lost=run.lost + int(run.is_under_way),
        strays=(*run.strays, (run.agent, run.attempt)) if run.is_under_way else run.strays,
    )
    return _with(state, changed)


def _completed(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunCompleted)
    run = _told_by_its_agent(state, fact)
    if run is None:
        return _counted(state, recorded)
    changed = replace(
        run,
        state="ended",
        since_ns=recorded.envelope.time_ns,
        word="completed",
        tally=fact.tally,
        level_note=fact.level_note,
        caveats=fact.caveats,
    )
    return _with(state, changed)


def _failed_run(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunFailed)
    run = _told_by_its_agent(state, fact)
    if run is None:
        return _counted(state, recorded)
    changed = replace(
        run,
        state="failed",
        since_ns=recorded.envelope.time_ns,
        word=fact.error,
        cause=f"{fact.error}: {fact.message}",
        tally=fact.tally,
        died=run.died + (fact.error == "worker_died"),
    )
    return _with(state, changed)


def _stored(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunRecorded | RunIncomplete)
    run = _current(state, fact)
    if run is None or run.is_stored:
        return state
    is_short = isinstance(fact, RunIncomplete)
    ended: RunState = "incomplete" if is_short else "recorded"
    changed = replace(
        run,
        is_stored=True,
        state=ended if run.state == "ended" else run.state,
        spans=fact.spans,
        queries=fact.queries,
    )
    if is_short and run.state == "ended":
        changed = replace(changed, cause=_shortfall(fact))
    return _with(state, changed)


def _shortfall(fact: RunRecorded | RunIncomplete) -> str:
    assert isinstance(fact, RunIncomplete)
    return f"{fact.stored_batches} of {fact.announced_batches} batches were stored"


def _counted(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    """Return the state with the counts of an attempt that was broken off, nothing else changed."""
    fact = recorded.fact
    assert isinstance(fact, RunCompleted | RunFailed | RunRecorded | RunIncomplete)
    run = _current(state, fact)
    if run is None:
        return state
    if isinstance(fact, RunRecorded | RunIncomplete):
        if run.is_stored:
            return state
        return _with(state, replace(run, is_stored=True, spans=fact.spans, queries=fact.queries))
    if run.word or run.agent != fact.agent:
        return state
    return _with(state, replace(run, tally=fact.tally))


def _measured(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    return replace(state, state="measured", measured_ns=recorded.envelope.time_ns)


def _analysis_completed(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, AnalysisCompleted)
    return replace(state, analyzed=fact.tables) if state.state == "measured" else state


def _analysis_failed(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, AnalysisFailed)
    return replace(state, analysis_failed=fact.cause) if state.state == "measured" else state


def _analyzed(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, EvaluationAnalyzed)
    return replace(state, state="analyzed", tables=fact.tables)


def _failed(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, EvaluationFailed)
    refusals = fact.agents or state.refusals
    return replace(state, state="failed", cause=fact.cause, refusals=refusals)


def _cancelled(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, EvaluationCancelled)
    return replace(state, state="cancelled", cause=fact.reason)


_STEPS: Mapping[type[Fact], Step] = MappingProxyType(
    {
        EvaluationRequested: _requested,
        EvaluationPostponed: _postponed,
        EvaluationPlanned: _planned,
        RunStarted: _started,
        RunReady: _ready,
        RunIssued: _issued,
        RunInterrupted: _interrupted,
        RunCompleted: _completed,
        RunFailed: _failed_run,
        RunRecorded: _stored,
        RunIncomplete: _stored,
        EvaluationMeasured: _measured,
        AnalysisCompleted: _analysis_completed,
        AnalysisFailed: _analysis_failed,
        EvaluationAnalyzed: _analyzed,
        EvaluationFailed: _failed,
        EvaluationCancelled: _cancelled,
    }
)


_COUNTS: Mapping[type[Fact], Step] = MappingProxyType(
    dict.fromkeys((RunCompleted, RunFailed, RunRecorded, RunIncomplete), _counted)
)


def end_of(run: Run) -> RunEnd:
    """Return how a run that is over ended; completed without the collector's word: incomplete."""
    if run.state == "incomplete" or (run.state == "ended" and not run.is_stored):
        return "incomplete"
    return "completed" if run.word == "completed" else "failed"
