"""What the recorded state requires of agents and issuers: commands and claims. Pure.

Effects follow from the recorded state alone, so after a restart they follow again; an agent takes
a repeated command for the one it had.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemas.plan import WorkOrder
from services.scheduler.evaluation.attempts import is_over
from services.scheduler.evaluation.runs import Run
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Start:
    """Order a group of runs from an agent."""

    agent: str
    evaluation: str
    session: str
    attempt: int
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Have an agent end an attempt that the log says is over."""

    agent: str
    evaluation: str
    run: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Close:
    """Have an agent close a session whose runs are over."""

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
    """Yield every effect that the state requires, carried out before or not."""
    if state.plan is None:
        return
    for run in state.runs.values():
        yield from (
            Stop(agent, state.evaluation, run.run, attempt)
            for agent, attempt in run.interrupted_attempts
            if not fleet.why_gone(agent, "")
        )
        if run.awaits_issuer:
            yield Issue(run.agent, state.evaluation, run.run, run.attempt)
    for session in state.plan.sessions:
        runs = [state.runs[run.run] for run in session.runs]
        yield from session_effects(state, session.session, runs, fleet)


def session_effects(
    state: EvaluationState, session: str, runs: Sequence[Run], fleet: Fleet
) -> Iterator[Start | Close]:
    """Yield what a `session` requires: its start, or its end on every agent that had it.

    `state` is its evaluation's, `runs` are its own; the `fleet` says whether a lost one is over.
    """
    under_way = [run for run in runs if run.is_under_way]
    if under_way and not state.is_ended:
        first = under_way[0]
        names = tuple(run.run for run in under_way if run.attempt == first.attempt)
        yield Start(first.agent, state.evaluation, session, first.attempt, names)
    elif state.is_ended or all(is_over(run, fleet) for run in runs):
        agents = dict.fromkeys(run.agent for run in runs if run.attempt)
        yield from (Close(agent, state.evaluation, session) for agent in agents)


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
