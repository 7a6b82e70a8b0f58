"""The decisions that follow from an evaluation's state, the fleet and the time. Pure.

`decide` returns the facts to record next; once they are recorded and folded, it does not return
them again. The caller asks again until it returns none. Commands to agents are in `effects`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Fact
from schemas.plan import SessionPlan
from schemas.request import Evaluate
from services.scheduler.errors import RequestRefused
from services.scheduler.evaluation.runs import measured_run
from services.scheduler.evaluation.state import EvaluationState, Run
from services.scheduler.placement.fleet import Attempt, Fleet, Limits
from services.scheduler.placement.matching import Candidate, fitting_agents, match
from services.scheduler.placement.planning import plan

S_NS = 1_000_000_000

_MAX_INTERRUPTIONS = 2
"""Interruptions of a group on one agent from which on an agent with fewer is preferred."""


def decide(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the facts that follow now, in order; empty when nothing follows.

    `now_ns` is epoch nanoseconds. Planning may make loads, which takes seconds: see `is_slow`.
    """
    if not state.is_known or state.is_ended:
        return []
    if state.plan is None:
        return _plan_or_postpone(state, now_ns, fleet)
    if state.state == "measured":
        return _end_of_analysis(state, now_ns, fleet)
    interruptions = list(_interruptions(state, now_ns, fleet))
    return interruptions or list(_starts(state, now_ns, fleet)) or _measured(state, now_ns, fleet)


def is_slow(state: EvaluationState) -> bool:
    """Tell whether deciding on a state takes too long for an event loop."""
    return state.is_known and not state.is_ended and state.plan is None


def decide_cancel(state: EvaluationState, reason: str) -> list[Fact]:
    """Return the facts that end an evaluation on request."""
    cause = f"cancelled: {reason}" if reason else "cancelled"
    interruptions: list[Fact] = [
        _interruption(state, run, cause, final=True)
        for run in state.runs.values()
        if run.is_under_way
    ]
    return [*interruptions, EvaluationCancelled(evaluation=state.evaluation, reason=reason)]


def decide_broken(
    state: EvaluationState, runs: Sequence[str], attempt: int, cause: str, limits: Limits
) -> list[Fact]:
    """Return the facts that interrupt an attempt that cannot go on.

    Of `runs` those are interrupted whose attempt number `attempt` is still under way; `cause` is
    what their status shows, `limits` say how many attempts may be lost before a run is given up.
    """
    planned = [state.runs[name] for name in runs if name in state.runs]
    return [
        _interruption(state, run, cause, final=run.lost + 1 >= limits.attempts_lost)
        for run in planned
        if run.attempt == attempt and run.is_under_way and not state.is_ended
    ]


def _request(state: EvaluationState) -> Evaluate:
    assert state.request is not None, "a known evaluation was requested"
    return state.request


def _plan_or_postpone(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the plan, or the wait for an agent that fits, or the failure once that was enough."""
    request, evaluation = _request(state), state.evaluation
    try:
        matched = match(request, fleet.catalog, fleet.loads, now_ns)
        if matched.agents:
            planned = plan(request, matched, fleet.catalog, fleet.shapes)
            return [EvaluationPlanned(evaluation=evaluation, plan=planned)]
    except RequestRefused as refused:
        return [EvaluationFailed(evaluation=evaluation, cause=refused.refused.message)]
    reasons = matched.reasons
    wait_s = max(request.wait_s, fleet.limits.agent_grace_s)
    until_ns = state.requested_ns + int(wait_s * S_NS)
    if now_ns >= until_ns:
        cause = "no agent fits" if reasons else "no agent is known"
        return [EvaluationFailed(evaluation=evaluation, cause=cause, agents=reasons)]
    if state.state == "postponed":
        return []
    return [EvaluationPostponed(evaluation=evaluation, agents=reasons, until_ns=until_ns)]


def _end_of_analysis(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    if state.analysis_failed:
        cause = f"analysis failed: {state.analysis_failed}"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    if state.analyzed is not None:
        return [EvaluationAnalyzed(evaluation=state.evaluation, tables=state.analyzed)]
    wait_s = fleet.limits.analysis_wait_s
    if now_ns >= state.measured_ns + int(wait_s * S_NS):
        cause = f"analysis failed: the analyzer did not report for {wait_s:g} s"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    return []


def _interruption(
    state: EvaluationState, run: Run, cause: str, *, final: bool = False
) -> RunInterrupted:
    return RunInterrupted(
        evaluation=state.evaluation,
        run=run.run,
        attempt=run.attempt,
        agent=run.agent,
        cause=cause,
        final=final,
    )


def _interruptions(state: EvaluationState, now_ns: int, fleet: Fleet) -> Iterator[Fact]:
    """Yield the ends of attempts whose agent or issuer is gone, or that are past their deadline."""
    for run in state.runs.values():
        if not run.is_under_way:
            continue
        cause = fleet.why_gone(run.agent, run.incarnation)
        is_issuer_gone = bool(run.issuer) and run.issuer not in fleet.issuers
        is_claim_old = now_ns >= run.issued_ns + int(fleet.limits.lease_ttl_s * S_NS)
        if not cause and is_issuer_gone and is_claim_old:
            cause = "the issuer of its load was lost"
        if cause:
            yield from decide_broken(state, [run.run], run.attempt, cause, fleet.limits)
            continue
        if now_ns >= deadline_ns(state, run, fleet):
            yield _interruption(state, run, "time-out: the agent did not end it", final=True)


def deadline_ns(state: EvaluationState, run: Run, fleet: Fleet) -> int:
    """Return the epoch ns at which an attempt is ended as a last resort.

    The runs of a group take turns in one session, so each may take the time-outs of all. Before
    that the agent fetches their files, for as long as the network takes.
    """
    group_s = sum(
        member.plan.timeout_s
        for member in state.runs.values()
        if member.session == run.session and member.plan.group == run.plan.group
    )
    attempt = Attempt(state.evaluation, run.run, run.attempt)
    fetching_s = fleet.fetching_s.get(run.agent, {}).get(attempt, 0.0)
    waits_s = min(fetching_s, fleet.limits.fetching_s) + fleet.limits.run_grace_s
    return run.started_ns + int((group_s + waits_s) * S_NS)


def is_over(run: Run, fleet: Fleet) -> bool:
    """Tell whether a run needs no further attempt."""
    if run.state in ("ended", "recorded", "incomplete"):
        return True
    if run.state == "failed":
        return run.outcome != "worker_died" or run.died >= fleet.limits.attempts_died
    return run.is_final


def next_group(state: EvaluationState, session: SessionPlan, fleet: Fleet) -> list[Run]:
    """Return the runs to do next in a session: those of its first group that are not over."""
    runs = [state.runs[run.run] for run in session.runs]
    waiting = [run for run in runs if not is_over(run, fleet)]
    if not waiting:
        return []
    return [run for run in waiting if run.plan.group == waiting[0].plan.group]


def _starts(state: EvaluationState, now_ns: int, fleet: Fleet) -> Iterator[Fact]:
    """Yield the starts of each group whose turn it is, or the ends of runs that no agent can do.

    The runs of a group share their attempt number, as they share an order.
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


def replacement_agents(state: EvaluationState, fleet: Fleet) -> frozenset[str]:
    """Return the agents that groups wait for instead of the agents they were planned for."""
    if state.plan is None or state.state == "measured" or state.is_ended:
        return frozenset()
    groups = _startable_groups(state, fleet)
    agents = [(_agent_for(state, group, fleet), group[0].agent) for group in groups]
    return frozenset(agent.agent for agent, planned in agents if agent and agent.agent != planned)


def _agent_for(state: EvaluationState, group: list[Run], fleet: Fleet) -> Candidate | None:
    """Return the agent that does a group: the planned one while it fits, else another that fits.

    Best is one whose turn it is, then the least loaded. An agent on which the group was
    interrupted again and again gives way to one where it was not. Where the evaluation runs on
    every agent, no other agent does a group: its results would count for the wrong agent.
    """
    assert state.plan is not None
    try:
        subject = state.plan.subject_of(group[0].session)
        fitting = fitting_agents(_request(state), subject, fleet.catalog)
    except RequestRefused:
        return None
    planned = next((agent for agent in fitting if agent.agent == group[0].agent), None)
    if _request(state).spread == "all":
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
    request = _request(state)
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
        yield _interruption(state, run, cause, final=True)


def _measured(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the end of measuring, once every run is over and the collector has reported on it."""
    runs = state.runs.values()
    if not all(is_over(run, fleet) and _is_counted(run, now_ns, fleet) for run in runs):
        return []
    silence = f"the collector did not report on it for {fleet.limits.recording_wait_s:g} s"
    measured = tuple(measured_run(run, silence) for run in runs)
    if not any(run.outcome == "completed" and run.stored is not None for run in runs):
        causes = dict.fromkeys(run.cause for run in measured if run.cause)
        cause = "; ".join(causes) or "no run was measured"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    return [EvaluationMeasured(evaluation=state.evaluation, runs=measured)]


def _is_counted(run: Run, now_ns: int, fleet: Fleet) -> bool:
    """Tell whether the collector has reported on a run, or need not be waited for any longer."""
    if run.stored is not None or run.state == "interrupted":
        return True
    limits = fleet.limits
    wait_s = limits.stored_wait_s if run.state == "failed" else limits.recording_wait_s
    return now_ns >= run.since_ns + int(wait_s * S_NS)
