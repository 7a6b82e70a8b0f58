"""What must happen beside the log for an evaluation to go on: commands to agents, claims. Pure.

Effects follow from the recorded state alone, so after a restart they follow again; agents take
a repeated command for the one they had.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.plan import SessionPlan, WorkOrder
from services.scheduler.decide import is_over
from services.scheduler.fleet import Fleet
from services.scheduler.state import EvaluationState, Run


@dataclass(frozen=True, slots=True)
class Start:
    """Give an agent a group of runs."""

    agent: str
    evaluation: str
    session: str
    attempt: int
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Have an agent end an attempt that is over for the log."""

    agent: str
    evaluation: str
    run: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Close:
    """Have an agent close a session, whose runs are over."""

    agent: str
    evaluation: str
    session: str


@dataclass(frozen=True, slots=True)
class Issue:
    """Claim a remote run that is ready, and issue its load."""

    agent: str
    evaluation: str
    run: str
    attempt: int


Effect = Start | Stop | Close | Issue


def effects(state: EvaluationState, fleet: Fleet) -> Iterator[Effect]:
    """Yield everything that must be so by now, done before or not."""
    if state.plan is None:
        return
    for run in state.runs.values():
        for agent, attempt in run.strays:
            if not fleet.why_gone(agent, ""):
                yield Stop(agent, state.evaluation, run.plan.run, attempt)
        if run.is_under_way and run.is_ready and run.plan.pacing == "remote" and not run.issuer:
            yield Issue(run.agent, state.evaluation, run.plan.run, run.attempt)
    for session in state.plan.sessions:
        yield from _of_session(state, session, fleet)


def _of_session(state: EvaluationState, session: SessionPlan, fleet: Fleet) -> Iterator[Effect]:
    runs = [state.runs[run.run] for run in session.runs]
    under_way = [run for run in runs if run.is_under_way]
    if under_way and not state.is_ended:
        first = under_way[0]
        names = tuple(run.plan.run for run in under_way if run.attempt == first.attempt)
        yield Start(first.agent, state.evaluation, session.session, first.attempt, names)
    elif state.is_ended or all(is_over(run, fleet) for run in runs):
        for agent in _agents_of(runs):
            yield Close(agent, state.evaluation, session.session)


def _agents_of(runs: list[Run]) -> list[str]:
    return list(dict.fromkeys(run.agent for run in runs if run.attempt))


def order_of(state: EvaluationState, start: Start) -> WorkOrder:
    """Return the order that a start gives its agent."""
    assert state.plan is not None
    session = next(s for s in state.plan.sessions if s.session == start.session)
    incarnation = state.runs[start.runs[0]].incarnation
    return WorkOrder(
        evaluation=state.evaluation,
        attempt=start.attempt,
        agent=start.agent,
        incarnation=incarnation,
        session=session.model_copy(update={"agent": start.agent}),
        subject=state.plan.subject_of(start.session),
        runs=start.runs,
    )
