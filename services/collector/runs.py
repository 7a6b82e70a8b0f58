"""The decisions about an evaluation as a fold, and the row of an ended attempt. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from schemas.batch import Batch, QueriesAnswered
from schemas.evaluation import (
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationRequested,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Fact
from schemas.plan import Plan, RunPlan, SessionPlan
from schemas.run import RunCompleted, RunFailed, Tally
from schemas.values.identity import run_key
from services.collector.errors import ForeignFact, UnplannedRun, UnstartedAttempt
from services.collector.rows import storable

RunEnded = RunCompleted | RunFailed | RunInterrupted
"""A fact that ends an attempt."""

_ISSUER = "scheduler"
"""The name, in place of an agent's, in batches of the queries of a remote load."""


@dataclass(frozen=True, slots=True)
class EvaluationDecisions:
    """The decisions about an evaluation: its request (epoch ns), its plan, whether it ended.

    `agents` holds the agent of each attempt, by run and attempt; `remote` are the runs whose load
    the scheduler issues.
    """

    requested_ns: int | None = None
    plan: Plan | None = None
    ended: bool = False
    agents: Mapping[tuple[str, int], str] = field(default_factory=lambda: MappingProxyType({}))
    remote: frozenset[str] = frozenset()


RunRow = dict[str, Any]
"""A row of the table `run` by column; the columns are described there."""

_NO_CLOCK: RunRow = {
    "monotonic_ns": None,
    "monotonic_end_ns": None,
    "epoch_start_ns": None,
    "epoch_end_ns": None,
    "boot_id": "",
}
"""Columns of an attempt whose agent did not report the origin of its clock."""


def evolve(decisions: EvaluationDecisions, fact: Fact) -> EvaluationDecisions:
    """Return the decisions after one more fact."""
    match fact:
        case EvaluationRequested():
            return replace(decisions, requested_ns=fact.requested_ns)
        case EvaluationPlanned():
            remote = frozenset(
                run.run
                for session in fact.plan.sessions
                for run in session.runs
                if run.pacing == "remote"
            )
            return replace(decisions, plan=fact.plan, remote=remote)
        case RunStarted():
            return replace(
                decisions, agents={(fact.run, fact.attempt): fact.agent, **decisions.agents}
            )
        case EvaluationMeasured() | EvaluationFailed() | EvaluationCancelled():
            return replace(decisions, ended=True)
        case _:
            return decisions


def fold_decisions(
    facts: Iterable[Fact], decisions: EvaluationDecisions | None = None
) -> EvaluationDecisions:
    """Return the decisions that facts lead to, from nothing or from `decisions`."""
    decisions = EvaluationDecisions() if decisions is None else decisions
    for fact in facts:
        decisions = evolve(decisions, fact)
    return decisions


def check_speaker(decisions: EvaluationDecisions, fact: Batch | RunCompleted | RunFailed) -> None:
    """Check that a fact about an attempt comes from the agent that runs the attempt.

    Every agent may publish facts about any run under its own name, and the first one is kept.
    Batches of a remote run's queries come from the scheduler. Raises UnstartedAttempt, ForeignFact.
    """
    agent = decisions.agents.get((fact.run, fact.attempt))
    if agent is None:
        raise UnstartedAttempt(fact.evaluation, fact.run, fact.attempt)
    is_issued = isinstance(fact, QueriesAnswered) and fact.run in decisions.remote
    if fact.agent != agent and not (is_issued and fact.agent == _ISSUER):
        raise ForeignFact(fact.agent, fact.run, fact.attempt, agent)


def run_row(fact: RunEnded, plan: Plan, requested_ns: int, cause: str) -> RunRow:
    """Return the row of an attempt that ended with `fact`. Raises UnplannedRun.

    `plan` is its evaluation's, requested at `requested_ns` (epoch ns); `cause` is the fact's id.
    """
    planned = ((s, run) for s in plan.sessions for run in s.runs if run.run == fact.run)
    session, run = next(planned, (None, None))
    if session is None or run is None:
        raise UnplannedRun(fact.evaluation, fact.run)
    tally, clock = Tally().model_dump(), _NO_CLOCK
    if not isinstance(fact, RunInterrupted):
        tally = fact.tally.model_dump()
        clock = fact.origin.model_dump() if fact.origin else _NO_CLOCK
    return {
        "run_key": run_key(fact.evaluation, fact.run, fact.attempt),
        "evaluation": fact.evaluation,
        "run": fact.run,
        "attempt": fact.attempt,
        "agent": fact.agent,
        "ts": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=requested_ns // 1000),
        "cause": cause,
        **_planned_columns(plan, session, run),
        **_outcome_columns(fact),
        **tally,
        **clock,
    }


def _planned_columns(plan: Plan, session: SessionPlan, run: RunPlan) -> RunRow:
    subject = plan.subject_of(session.session)
    return {
        "session": session.session,
        "variant": session.variant,
        "scenario": run.scenario,
        "parameters": run.parameters,
        "pacing": run.pacing,
        "level_asked": int(run.level),
        "batch_size": session.batch_size,
        "planned_queries": run.queries,
        "model": subject.model.name,
        "model_version": subject.model.version,
        "model_digest": subject.model_digest,
        "dataset": f"{subject.dataset.name}:{subject.dataset.version}",
        "framework": subject.framework,
        "framework_version": subject.framework_version,
        "device": subject.device,
    }


def _outcome_columns(fact: RunEnded) -> RunRow:
    """Return the columns from the fact that ended the attempt."""
    columns: RunRow = {
        "level": 0,
        "level_note": "",
        "outcome": fact.happened,
        "error": "",
        "message": "",
        "interrupted": None,
        "state": "ended",
        "conditions": {},
        "blocks": [],
        "caveats": [],
    }
    if isinstance(fact, RunInterrupted):
        given_up = {"error": "interrupted", "interrupted": fact.cause, "state": "interrupted"}
        return columns | given_up | {"message": fact.cause}
    columns["level"] = int(fact.level)
    columns["conditions"] = fact.conditions.model_dump(mode="json")
    if fact.conditions.framework_version:
        columns["framework_version"] = fact.conditions.framework_version
    if isinstance(fact, RunFailed):
        return columns | {"error": fact.error, "message": storable(fact.message)}
    columns["level_note"] = fact.level_note
    columns["blocks"] = [block.model_dump(mode="json") for block in fact.blocks]
    columns["caveats"] = list(fact.caveats)
    return columns
