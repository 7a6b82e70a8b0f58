"""One evaluation as a fold of what was said of it. Pure.

Every transition asks for the attempt and state it belongs to, so a fact said twice, or one of
an attempt that is over, changes nothing. An ended evaluation changes no more but in its counts:
rows are still on their way when it is broken off. What becomes of each run is in `runs`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

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
    RunInterrupted,
    RunIssued,
    RunStarted,
)
from schemas.message import Fact
from schemas.plan import Plan
from schemas.request import AgentReason, Evaluate
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.status import State
from services.scheduler import runs as run_steps
from services.scheduler.runs import Run, end_of

__all__ = ["ENDS", "EvaluationState", "Run", "end_of", "evolve", "fold"]

ENDS: frozenset[State] = frozenset({"analyzed", "failed", "cancelled"})


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


def _started(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    fact = recorded.fact
    assert isinstance(fact, RunStarted)
    known = state.runs.get(fact.run)
    if known is None or state.state == "measured":
        return state
    run = run_steps.started(known, fact, recorded.envelope.time_ns)
    return state if run is known else replace(_with(state, run), state="running")


def _with(state: EvaluationState, run: Run) -> EvaluationState:
    return replace(state, runs={**state.runs, run.plan.run: run})


def _of_run(change: Callable[[Run, Any, int], Run]) -> Step:
    """Return the step of a fact about a run: it counts of the newest attempt alone."""

    def step(state: EvaluationState, recorded: Recorded) -> EvaluationState:
        fact = recorded.fact
        run = state.runs.get(getattr(fact, "run", ""))
        if run is None or run.attempt != getattr(fact, "attempt", 0):
            return state
        after = change(run, fact, recorded.envelope.time_ns)
        return state if after is run else _with(state, after)

    return step


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
        RunReady: _of_run(run_steps.ready),
        RunIssued: _of_run(run_steps.issued),
        RunInterrupted: _of_run(run_steps.interrupted),
        RunCompleted: _of_run(run_steps.completed),
        RunFailed: _of_run(run_steps.failed),
        RunRecorded: _of_run(run_steps.stored),
        RunIncomplete: _of_run(run_steps.stored),
        EvaluationMeasured: _measured,
        AnalysisCompleted: _analysis_completed,
        AnalysisFailed: _analysis_failed,
        EvaluationAnalyzed: _analyzed,
        EvaluationFailed: _failed,
        EvaluationCancelled: _cancelled,
    }
)


_COUNTS: Mapping[type[Fact], Step] = MappingProxyType(
    dict.fromkeys((RunCompleted, RunFailed, RunRecorded, RunIncomplete), _of_run(run_steps.counted))
)
