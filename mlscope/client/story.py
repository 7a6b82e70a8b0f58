"""An evaluation's status as a fold of its facts: what watchers and pages show while it runs.

Every step is idempotent and never goes back, so facts that a status already contains do no harm.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from schemas.analysis import AnalysisCompleted
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    EvaluationRequested,
    MeasuredRun,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Fact
from schemas.plan import Plan, RunPlan, SessionPlan
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunRecorded
from schemas.status import EvaluationStatus, RunState, RunStatus, State, framework_name

ENDED: frozenset[State] = frozenset({"analyzed", "failed", "cancelled"})
"""States an evaluation never leaves."""

RUN_ENDED: frozenset[RunState] = frozenset({"recorded", "failed", "incomplete", "cancelled"})
"""States a run's last attempt never leaves, but for a repeat under a higher attempt."""

_PAST = RUN_ENDED | {"ended"}

_RANK: Mapping[str, int] = MappingProxyType(
    {
        "requested": 0,
        "postponed": 1,
        "planned": 2,
        "running": 3,
        "measured": 4,
        "analyzed": 5,
        "failed": 5,
        "cancelled": 5,
    }
)
_END: Mapping[str, RunState] = MappingProxyType(
    {
        "completed": "recorded",
        "failed": "failed",
        "incomplete": "incomplete",
        "cancelled": "cancelled",
    }
)


_NOTHING = MappingProxyType({"spans": 0, "answered": 0, "failed_queries": 0})


def unheard(evaluation: str) -> EvaluationStatus:
    """Return the status of an evaluation of which nothing was heard yet."""
    return EvaluationStatus(evaluation=evaluation, state="requested", model="", requested_ns=0)


def evolve(status: EvaluationStatus, fact: Fact) -> EvaluationStatus:
    """Return the status after a fact; facts of other kinds change nothing."""
    step = _STEPS.get(type(fact))
    return step(status, fact) if step else status


def _copy(status: EvaluationStatus, **changes: Any) -> EvaluationStatus:
    return status.model_copy(update=changes)


def _reached(status: EvaluationStatus, state: State) -> State:
    return state if _RANK[state] > _RANK[status.state] else status.state


def _requested(status: EvaluationStatus, fact: EvaluationRequested) -> EvaluationStatus:
    model = fact.request.model
    return _copy(
        status,
        request=fact.request,
        requested_ns=fact.requested_ns,
        model=model if isinstance(model, str) else f"{model.name}:{model.version}",
        labels=fact.request.labels,
    )


def _postponed(status: EvaluationStatus, fact: EvaluationPostponed) -> EvaluationStatus:
    return _copy(status, state=_reached(status, "postponed"), refusals=fact.agents)


def _planned(status: EvaluationStatus, fact: EvaluationPlanned) -> EvaluationStatus:
    sessions = fact.plan.sessions
    model = fact.plan.subject.model
    return _copy(
        status,
        state=_reached(status, "planned"),
        model=f"{model.name}:{model.version}",
        framework=framework_name(fact.plan.subject),
        device=fact.plan.subject.device,
        agents=tuple(dict.fromkeys(session.agent for session in sessions)),
        runs=status.runs or planned_runs(fact.plan),
        refusals=fact.plan.refusals,
    )


def planned_runs(plan: Plan) -> tuple[RunStatus, ...]:
    """Return every run of a plan, in the order of the plan, none started."""
    return tuple(_planned_run(session, run) for session in plan.sessions for run in session.runs)


def _planned_run(session: SessionPlan, run: RunPlan) -> RunStatus:
    return RunStatus(
        run=run.run,
        session=session.session,
        agent=session.agent,
        scenario=run.scenario,
        level=run.level,
        batch_size=session.batch_size,
        queries=run.queries,
    )


def _measured(status: EvaluationStatus, fact: EvaluationMeasured) -> EvaluationStatus:
    ends = {run.run: run for run in fact.runs}
    runs = tuple(_ended(run, ends[run.run]) if run.run in ends else run for run in status.runs)
    return _copy(status, state=_reached(status, "measured"), runs=runs)


def _ended(run: RunStatus, end: MeasuredRun) -> RunStatus:
    changes: dict[str, Any] = {"state": _END[end.end], "attempt": end.attempt}
    if end.cause:
        changes["cause"] = end.cause
    return run.model_copy(update=changes)


def _analyzed(
    status: EvaluationStatus, fact: EvaluationAnalyzed | AnalysisCompleted
) -> EvaluationStatus:
    state = "analyzed" if isinstance(fact, EvaluationAnalyzed) else status.state
    return _copy(status, state=_reached(status, state), tables=fact.tables)


def _failed(status: EvaluationStatus, fact: EvaluationFailed) -> EvaluationStatus:
    return _copy(
        status,
        state=_reached(status, "failed"),
        cause=fact.cause,
        refusals=fact.agents or status.refusals,
    )


def _cancelled(status: EvaluationStatus, fact: EvaluationCancelled) -> EvaluationStatus:
    runs = tuple(
        run if run.state in _PAST else run.model_copy(update={"state": "cancelled"})
        for run in status.runs
    )
    return _copy(status, state=_reached(status, "cancelled"), cause=fact.reason, runs=runs)


_RunFact = RunStarted | RunInterrupted | RunCompleted | RunFailed | RunRecorded | RunIncomplete


def _run_step(status: EvaluationStatus, fact: _RunFact) -> EvaluationStatus:
    runs = tuple(_run_evolve(run, fact) if run.run == fact.run else run for run in status.runs)
    if runs == status.runs:
        return status
    return _copy(status, state=_reached(status, "running"), runs=runs)


def _run_evolve(run: RunStatus, fact: _RunFact) -> RunStatus:
    if isinstance(fact, RunCompleted | RunFailed):
        return _told_by_agent(run, fact)
    is_decision = isinstance(fact, RunStarted | RunInterrupted)
    if fact.attempt < run.attempt or (fact.attempt > run.attempt and not is_decision):
        return run
    repeated = fact.attempt > run.attempt
    changes = _run_changes("planned" if repeated else run.state, fact)
    if isinstance(fact, RunRecorded | RunIncomplete):
        changes |= _stored(run, fact)
    if repeated:
        changes = {"attempt": fact.attempt, "cause": "", **_NOTHING, **changes}
    return run.model_copy(update=changes)


def _run_changes(
    state: RunState, fact: RunStarted | RunInterrupted | RunRecorded | RunIncomplete
) -> dict[str, Any]:
    if isinstance(fact, RunInterrupted) and fact.final and state == "failed":
        return {"state": "interrupted", "cause": fact.cause}
    if state in RUN_ENDED:
        return {}
    match fact:
        case RunStarted():
            return {"state": "started", "agent": fact.agent} if state == "planned" else {}
        case RunInterrupted():
            if state == "ended":
                return {}
            return {"state": "interrupted", "cause": fact.cause}
        case RunIncomplete():
            return {"state": "incomplete", "cause": _missing(fact)} if state == "ended" else {}
        case _:
            return {"state": "recorded"} if state == "ended" else {}


def _told_by_agent(run: RunStatus, fact: RunCompleted | RunFailed) -> RunStatus:
    """Return the run after an agent's word: it counts from whom the attempt was started on alone.

    As the scheduler has it; of an attempt that was broken off only the counts are taken.
    """
    if (fact.attempt, fact.agent) != (run.attempt, run.agent):
        return run
    if run.state == "started":
        return run.model_copy(update=_outcome(fact))
    if run.state in ("interrupted", "cancelled"):
        return run.model_copy(update=_tallied(fact))
    return run


def _outcome(fact: RunCompleted | RunFailed) -> dict[str, Any]:
    if isinstance(fact, RunFailed):
        return {"state": "failed", "cause": f"{fact.error}: {fact.message}", **_tallied(fact)}
    notes = {"level_note": fact.level_note, "caveats": fact.caveats}
    return {"state": "ended", **notes, **_tallied(fact)}


def _stored(run: RunStatus, fact: RunRecorded | RunIncomplete) -> dict[str, int]:
    """Return the collector's counts of an attempt that has ended, its first word on it.

    Of one that was broken off the last: it tells again once the agent spoke.
    """
    if run.state in ("planned", "started", "recorded", "incomplete"):
        return {}
    failed = run.failed_queries
    if isinstance(fact, RunIncomplete) and fact.failed_queries:
        failed = fact.failed_queries
    answered = max((fact.queries or run.answered + run.failed_queries) - failed, 0)
    return {"spans": fact.spans or run.spans, "answered": answered, "failed_queries": failed}


def _tallied(fact: RunCompleted | RunFailed) -> dict[str, int]:
    return {
        "spans": fact.tally.spans,
        "answered": max(fact.tally.queries - fact.tally.failed_queries, 0),
        "failed_queries": fact.tally.failed_queries,
    }


def _missing(fact: RunIncomplete) -> str:
    missing = fact.announced_batches - fact.stored_batches
    return f"{missing} of {fact.announced_batches} batches never came"


_STEPS: Mapping[type[Fact], Callable[[EvaluationStatus, Any], EvaluationStatus]] = MappingProxyType(
    {
        EvaluationRequested: _requested,
        EvaluationPostponed: _postponed,
        EvaluationPlanned: _planned,
        RunStarted: _run_step,
        RunInterrupted: _run_step,
        RunCompleted: _run_step,
        RunFailed: _run_step,
        RunRecorded: _run_step,
        RunIncomplete: _run_step,
        EvaluationMeasured: _measured,
        EvaluationAnalyzed: _analyzed,
        AnalysisCompleted: _analyzed,
        EvaluationFailed: _failed,
        EvaluationCancelled: _cancelled,
    }
)
