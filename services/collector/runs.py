"""What the log says of an evaluation, and the row an ended attempt becomes."""

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
from schemas.identity import run_key
from schemas.message import Fact
from schemas.plan import Plan, RunPlan, SessionPlan
from schemas.run import ClockOrigin, RunCompleted, RunFailed, Tally
from services.collector.errors import ForeignFact, UnplannedRun, UnstartedAttempt
from services.collector.rows import storable

RunEnded = RunCompleted | RunFailed | RunInterrupted
"""A fact that ends an attempt."""

_ISSUER = "scheduler"
"""Who tells of a remote load's queries, in a batch's place for the agent."""


def _no_agents() -> Mapping[tuple[str, int], str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Known:
    """What the log says of an evaluation: its start (epoch ns), its plan, and whether it ended.

    `agents` has who each attempt was started on, by run and attempt; `remote` are the runs whose
    load the scheduler issues.
    """

    requested_ns: int | None = None
    plan: Plan | None = None
    ended: bool = False
    agents: Mapping[tuple[str, int], str] = field(default_factory=_no_agents)
    remote: frozenset[str] = frozenset()


RunRow = dict[str, Any]
"""A row of the table `run` by column; the columns are described there."""


def evolve(known: Known, fact: Fact) -> Known:
    """Return what is known after one more decision."""
    match fact:
        case EvaluationRequested():
            return replace(known, requested_ns=fact.requested_ns)
        case EvaluationPlanned():
            return replace(known, plan=fact.plan, remote=_remote_runs(fact.plan))
        case RunStarted():
            return replace(known, agents={(fact.run, fact.attempt): fact.agent, **known.agents})
        case EvaluationMeasured() | EvaluationFailed() | EvaluationCancelled():
            return replace(known, ended=True)
        case _:
            return known


def known_of(facts: Iterable[Fact]) -> Known:
    """Fold an evaluation's decisions."""
    known = Known()
    for fact in facts:
        known = evolve(known, fact)
    return known


def _remote_runs(plan: Plan) -> frozenset[str]:
    runs = (run for session in plan.sessions for run in session.runs)
    return frozenset(run.run for run in runs if run.pacing == "remote")


def check_speaker(known: Known, fact: Batch | RunCompleted | RunFailed) -> None:
    """Check that who says a fact is the agent its attempt was started on.

    Each agent may speak of any run under its own name, and what comes first is kept for ever.
    A remote run's queries are the scheduler's to tell. Raises UnstartedAttempt, ForeignFact.
    """
    agent = known.agents.get((fact.run, fact.attempt))
    if agent is None:
        raise UnstartedAttempt(fact.evaluation, fact.run, fact.attempt)
    is_issued = isinstance(fact, QueriesAnswered) and fact.run in known.remote
    if fact.agent != agent and not (is_issued and fact.agent == _ISSUER):
        raise ForeignFact(fact.agent, fact.run, fact.attempt, agent)


def run_row(fact: RunEnded, plan: Plan, requested_ns: int, cause: str) -> RunRow:
    """Return the row of an ended attempt; `cause` is the fact's id. Raises UnplannedRun."""
    session, run = _planned(plan, fact)
    tally = Tally() if isinstance(fact, RunInterrupted) else fact.tally
    return {
        "run_key": run_key(fact.evaluation, fact.run, fact.attempt),
        "evaluation": fact.evaluation,
        "run": fact.run,
        "attempt": fact.attempt,
        "agent": fact.agent,
        "ts": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=requested_ns // 1000),
        "cause": cause,
        **_planned_columns(plan, session, run),
        **_told_columns(fact),
        **tally.model_dump(),
        **_origin_columns(None if isinstance(fact, RunInterrupted) else fact.origin),
    }


def _planned(plan: Plan, fact: RunEnded) -> tuple[SessionPlan, RunPlan]:
    for session in plan.sessions:
        for run in session.runs:
            if run.run == fact.run:
                return session, run
    raise UnplannedRun(fact.evaluation, fact.run)


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


def _told_columns(fact: RunEnded) -> RunRow:
    """Return what the ending fact itself says; of an interrupted attempt that is little."""
    told: RunRow = {
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
        return told | given_up | {"message": fact.cause}
    told["level"] = int(fact.level)
    told["conditions"] = fact.conditions.model_dump(mode="json")
    if fact.conditions.framework_version:
        told["framework_version"] = fact.conditions.framework_version
    if isinstance(fact, RunFailed):
        return told | {"error": fact.error, "message": storable(fact.message)}
    told["level_note"] = fact.level_note
    told["blocks"] = [block.model_dump(mode="json") for block in fact.blocks]
    told["caveats"] = list(fact.caveats)
    return told


def _origin_columns(origin: ClockOrigin | None) -> RunRow:
    if origin is None:
        stamps = ("monotonic_ns", "monotonic_end_ns", "epoch_start_ns", "epoch_end_ns")
        return {**dict.fromkeys(stamps), "boot_id": ""}
    return origin.model_dump()
