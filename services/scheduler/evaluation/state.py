"""An evaluation with what only the scheduler needs to know of it, as a fold of the log. Pure.

What everybody sees of it is the shared fold's, `mlscope.evaluation.fold`.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mlscope.bus.records import Recorded
from mlscope.evaluation.fold import ENDED, FOLDED, REPORTS, EvaluationRecord
from mlscope.evaluation.fold import evolve as evolve_record
from schemas.analysis import AnalysisCompleted, AnalysisFailed, Headline
from schemas.evaluation import (
    EvaluationAnalyzed,
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
from schemas.request import Evaluate
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from services.scheduler.evaluation.runs import Run, end_of, run_of, schedule_run

__all__ = ["ENDED", "EvaluationState", "Run", "end_of", "evolve", "fold"]

SCHEDULED: frozenset[type[Fact]] = FOLDED | {RunReady, RunIssued, AnalysisCompleted, AnalysisFailed}
"""The kinds of facts that a state depends on."""

_AFTER_CANCELLATION: tuple[type[Fact], ...] = (
    *REPORTS,
    EvaluationMeasured,
    AnalysisCompleted,
    EvaluationAnalyzed,
)
"""Kinds of facts about the analysis of what was measured before a cancellation."""

_RunFact = (
    RunStarted
    | RunReady
    | RunIssued
    | RunInterrupted
    | RunCompleted
    | RunFailed
    | RunRecorded
    | RunIncomplete
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationState(EvaluationRecord):
    """The state of one evaluation, as the scheduler decides on it. Times are epoch nanoseconds."""

    runs: Mapping[str, Run] = field(default_factory=lambda: MappingProxyType({}))
    plan: Plan | None = None
    planned_ns: int = 0
    measured_ns: int = 0
    #: when a postponed evaluation fails
    until_ns: int = 0
    #: what the analyzer reported: its tables and main figures, or the cause of its failure
    analyzed: tuple[str, ...] | None = None
    found_headlines: tuple[Headline, ...] = ()
    analysis_failed: str = ""
    #: sequence of the last fact, of the last decision, and the id of the last fact
    sequence: int = 0
    decided: int = 0
    last_id: str = ""

    @property
    def known_request(self) -> Evaluate:
        """The request of an evaluation that is known."""
        assert self.request is not None, "a known evaluation was requested"
        return self.request


def evolve(state: EvaluationState, recorded: Recorded) -> EvaluationState:
    """Return the state after a fact of this evaluation; facts come in the log's order."""
    fact = recorded.fact
    is_expected = state.is_known or isinstance(fact, EvaluationRequested)
    kinds = tuple(SCHEDULED)
    if state.is_ended:
        kinds = _AFTER_CANCELLATION if state.state == "cancelled" else REPORTS
    if recorded.sequence <= state.sequence or not is_expected or not isinstance(fact, kinds):
        return state
    after = _schedule(state, evolve_record(state, fact), recorded)
    is_decision = fact.entity == "evaluation"
    return replace(
        after,
        sequence=recorded.sequence,
        decided=recorded.sequence if is_decision else after.decided,
        last_id=recorded.envelope.id,
    )


def fold(log: Iterable[Recorded], state: EvaluationState | None = None) -> EvaluationState:
    """Return the state that a story leads to, from nothing or from `state`.

    A fact that cannot be folded is passed over, as the index does, which says so.
    """
    state = EvaluationState() if state is None else state
    for recorded in log:
        with suppress(Exception):
            state = evolve(state, recorded)
    return state


def _schedule(
    before: EvaluationState, after: EvaluationState, recorded: Recorded
) -> EvaluationState:
    """Return the state with the scheduler's own fields after a fact.

    `before` and `after` are the state before and after the shared fold took the fact.
    """
    fact, time_ns = recorded.fact, recorded.envelope.time_ns
    match fact:
        case EvaluationPostponed() if after is not before:
            return replace(after, until_ns=fact.until_ns)
        case EvaluationPlanned() if after is not before:
            plans = {run.run: run for session in fact.plan.sessions for run in session.runs}
            runs = {
                name: before.runs[name] if name in before.runs else run_of(run, plans[name])
                for name, run in after.runs.items()
            }
            planned_ns = before.planned_ns or time_ns
            return replace(after, plan=fact.plan, planned_ns=planned_ns, runs=runs)
        case EvaluationMeasured() if after is not before or not before.measured_ns:
            return replace(after, measured_ns=time_ns)
        case AnalysisCompleted() if before.state in ("measured", "cancelled"):
            return replace(after, analyzed=fact.tables, found_headlines=fact.headlines)
        case AnalysisFailed() if before.state == "measured":
            return replace(after, analysis_failed=fact.cause)
    if not isinstance(fact, _RunFact):
        return after
    run = after.runs.get(fact.run)
    if run is None or run.attempt != fact.attempt:
        return after
    scheduled = schedule_run(before.runs[run.run], run, fact, time_ns)
    return after if scheduled is run else replace(after, runs={**after.runs, run.run: scheduled})
