"""Which runs start next, and on which agent. Pure."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from schemas.evaluation import RunInterrupted, RunStarted
from schemas.message import Fact
from schemas.plan import SessionPlan
from services.scheduler.errors import RequestRefused
from services.scheduler.evaluation.attempts import S_NS, interruption, is_over
from services.scheduler.evaluation.state import EvaluationState, Run
from services.scheduler.placement.candidates import Candidate
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.matching import fitting_agents

_MAX_INTERRUPTIONS = 2
"""Interruptions of a group on one agent from which on an agent with fewer is preferred."""


def starts_due(state: EvaluationState, now_ns: int, fleet: Fleet) -> Iterator[Fact]:
    """Yield the starts of each group whose turn it is, or the ends of runs that no agent can do.

    The runs of a group share their attempt number, as they share an order. `state` is their
    evaluation's, `now_ns` is epoch nanoseconds, and `fleet` says who can do them.
    """
    busy = {run.agent for run in state.runs.values() if run.is_under_way}
    for group in _startable_groups(state, fleet):
        agent = _agent_for(state, group, fleet)
        if agent is None:
            yield from _give_up(state, group, now_ns, fleet)
            continue
        if agent.agent in busy or not fleet.has_turn(state.evaluation, agent.agent):
            continue
        busy.add(agent.agent)
        attempt = max(run.attempt for run in group) + 1
        for run in group:
            yield RunStarted(
                evaluation=state.evaluation,
                run=run.run,
                session=run.session,
                attempt=attempt,
                agent=agent.agent,
                incarnation=agent.incarnation,
                started_ns=now_ns,
            )


def replacement_agents(state: EvaluationState, fleet: Fleet) -> frozenset[str]:
    """Return the agents that groups wait for instead of the agents they were planned for."""
    if state.plan is None or state.state == "measured" or state.is_ended:
        return frozenset()
    groups = _startable_groups(state, fleet)
    agents = [(_agent_for(state, group, fleet), group[0].agent) for group in groups]
    return frozenset(agent.agent for agent, planned in agents if agent and agent.agent != planned)


def next_group(state: EvaluationState, session: SessionPlan, fleet: Fleet) -> list[Run]:
    """Return the runs to do next in a `session`: those of its first group that are not over.

    `state` has their records, and `fleet` the number of attempts that they may lose.
    """
    runs = [state.runs[run.run] for run in session.runs]
    waiting = [run for run in runs if not is_over(run, fleet)]
    return [run for run in waiting if run.plan.group == waiting[0].plan.group]


def _startable_groups(state: EvaluationState, fleet: Fleet) -> list[list[Run]]:
    """Return the next groups that are not under way and need not wait for an agent that lives."""
    assert state.plan is not None
    groups = (next_group(state, session, fleet) for session in state.plan.sessions)
    return [
        group
        for group in groups
        if group
        and not any(run.is_under_way for run in group)
        and (fleet.has_turn(state.evaluation, group[0].agent) or fleet.why_gone(group[0].agent, ""))
    ]


def _agent_for(state: EvaluationState, group: list[Run], fleet: Fleet) -> Candidate | None:
    """Return the agent that does a group: the planned one while it fits, else another that fits.

    Best is one whose turn it is, then the least loaded. An agent on which the group was
    interrupted again and again gives way to one where it was not. Where the evaluation runs on
    every agent, no other agent does a group: its results would count for the wrong agent.
    """
    assert state.plan is not None
    try:
        subject = state.plan.subject_of(group[0].session)
        fitting = fitting_agents(state.known_request, subject, fleet.catalog)
    except RequestRefused:
        return None
    planned = next((agent for agent in fitting if agent.agent == group[0].agent), None)
    if state.known_request.spread == "all":
        return planned
    attempts = set(chain.from_iterable(run.interrupted_attempts for run in group))
    interruptions = Counter(agent for agent, _ in attempts)
    fewest = min((interruptions[candidate.agent] for candidate in fitting), default=0)
    if planned and interruptions[planned.agent] < max(_MAX_INTERRUPTIONS, fewest + 1):
        return planned

    def rank(candidate: Candidate) -> tuple[bool, bool, int, str]:
        agent = candidate.agent
        must_wait = not fleet.has_turn(state.evaluation, agent)
        is_unreliable = interruptions[agent] >= _MAX_INTERRUPTIONS
        return is_unreliable, must_wait, fleet.loads.get(agent, 0), agent

    return min(fitting, key=rank, default=None)


def _give_up(
    state: EvaluationState, group: list[Run], now_ns: int, fleet: Fleet
) -> Iterator[RunInterrupted]:
    """Yield the final ends of runs that no agent can do, once they have waited long enough."""
    request = state.known_request
    wait_s = max(request.wait_s, fleet.limits.agent_grace_s)
    since_ns = max(run.since_ns or state.planned_ns for run in group)
    if now_ns < since_ns + int(wait_s * S_NS):
        return
    if request.spread == "all":
        why = "no other agent may do the runs of this one"
    else:
        why = "no other agent fits"
    for run in group:
        cause = f"{run.cause}; {why}" if run.cause else "no agent fits any more"
        yield interruption(state, run, cause, final=True)
