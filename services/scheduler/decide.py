"""What follows from an evaluation's state, the fleet and the time. Pure.

`decide` returns the facts to record next; recorded and folded, they are never decided again.
It is asked anew until it returns none. What else must happen is in `effects`.
"""

from collections.abc import Iterator, Sequence

from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    MeasuredRun,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Fact
from schemas.plan import SessionPlan
from schemas.request import AgentReason, Evaluate
from services.scheduler.errors import RequestRefused
from services.scheduler.fleet import Fleet, Limits
from services.scheduler.matching import Candidate, fitting_agents, match
from services.scheduler.planning import plan
from services.scheduler.state import EvaluationState, Run, end_of

S_NS = 1_000_000_000


def decide(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the facts that follow now, in order; empty when there is nothing to say.

    Planning may make loads, which takes seconds: see `is_slow`.
    """
    if not state.is_known or state.is_ended:
        return []
    if state.plan is None:
        return _plan(state, now_ns, fleet)
    if state.state == "measured":
        return _conclude(state, now_ns, fleet)
    interruptions = list(_interruptions(state, now_ns, fleet))
    return interruptions or list(_starts(state, now_ns, fleet)) or _measure(state, now_ns, fleet)


def is_slow(state: EvaluationState) -> bool:
    """Tell whether deciding upon a state is nothing for an event loop."""
    return state.is_known and not state.is_ended and state.plan is None


def decide_cancel(state: EvaluationState, reason: str) -> list[Fact]:
    """Return the facts that end an evaluation on request."""
    cause = f"cancelled: {reason}" if reason else "cancelled"
    stopped: list[Fact] = [
        _interruption(state, run, cause, final=True)
        for run in state.runs.values()
        if run.is_under_way
    ]
    return [*stopped, EvaluationCancelled(evaluation=state.evaluation, reason=reason)]


def decide_broken(
    state: EvaluationState, runs: Sequence[str], attempt: int, cause: str, limits: Limits
) -> list[Fact]:
    """Return the facts that end an attempt which can't go on, for those of `runs` still in it."""
    found = [state.runs[name] for name in runs if name in state.runs]
    return [
        _interruption(state, run, cause, final=run.lost + 1 >= limits.attempts_lost)
        for run in found
        if run.attempt == attempt and run.is_under_way and not state.is_ended
    ]


def _request(state: EvaluationState) -> Evaluate:
    assert state.request is not None, "a known evaluation was requested"
    return state.request


def _plan(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    request = _request(state)
    try:
        found = match(request, fleet.catalog, fleet.loads, now_ns)
        if found.agents:
            planned = plan(request, found, fleet.catalog, fleet.shapes)
            return [EvaluationPlanned(evaluation=state.evaluation, plan=planned)]
    except RequestRefused as refused:
        cause = refused.refused.message
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    wait_s = max(request.wait_s, fleet.limits.agent_grace_s)
    return _postpone(state, now_ns, found.reasons, state.requested_ns + int(wait_s * S_NS))


def _postpone(
    state: EvaluationState, now_ns: int, reasons: tuple[AgentReason, ...], until_ns: int
) -> list[Fact]:
    if now_ns >= until_ns:
        cause = "no agent fits" if reasons else "no agent is known"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause, agents=reasons)]
    if state.state == "postponed":
        return []
    return [EvaluationPostponed(evaluation=state.evaluation, agents=reasons, until_ns=until_ns)]


def _conclude(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    if state.analysis_failed:
        cause = f"analysis failed: {state.analysis_failed}"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    if state.analyzed is not None:
        return [EvaluationAnalyzed(evaluation=state.evaluation, tables=state.analyzed)]
    wait_s = fleet.limits.analysis_wait_s
    if now_ns >= state.measured_ns + int(wait_s * S_NS):
        cause = f"analysis failed: the analyzer said nothing for {wait_s:g} s"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    return []


def _interruption(
    state: EvaluationState, run: Run, cause: str, *, final: bool = False
) -> RunInterrupted:
    return RunInterrupted(
        evaluation=state.evaluation,
        run=run.plan.run,
        attempt=run.attempt,
        agent=run.agent,
        cause=cause,
        final=final,
    )


def _interruptions(state: EvaluationState, now_ns: int, fleet: Fleet) -> Iterator[Fact]:
    """Yield what ends attempts under way: agent or issuer gone, or far too long."""
    for run in state.runs.values():
        if not run.is_under_way:
            continue
        cause = fleet.why_gone(run.agent, run.incarnation) or _issuer_gone(run, now_ns, fleet)
        if cause:
            yield from decide_broken(state, [run.plan.run], run.attempt, cause, fleet.limits)
        elif now_ns >= deadline_ns(state, run, fleet):
            yield _interruption(state, run, "time-out: the agent did not end it", final=True)


def _issuer_gone(run: Run, now_ns: int, fleet: Fleet) -> str:
    if not run.issuer or run.issuer in fleet.issuers:
        return ""
    is_young = now_ns < run.issued_ns + int(fleet.limits.lease_ttl_s * S_NS)
    return "" if is_young else "the issuer of its load was lost"


def deadline_ns(state: EvaluationState, run: Run, fleet: Fleet) -> int:
    """Return when an attempt is ended as a last resort, epoch.

    The runs of a group take turns in one session, so each may take the time-outs of all. Bringing
    what they need comes before, and takes as long as the network does.
    """
    group_s = sum(
        other.plan.timeout_s
        for other in state.runs.values()
        if other.session == run.session and other.plan.group == run.plan.group
    )
    name = (state.evaluation, run.plan.run, run.attempt)
    brought_s = fleet.brought_s.get(run.agent, {}).get(name, 0.0)
    waits_s = min(brought_s, fleet.limits.bringing_s) + fleet.limits.run_grace_s
    return run.started_ns + int((group_s + waits_s) * S_NS)


def is_over(run: Run, fleet: Fleet) -> bool:
    """Tell whether a run needs no other attempt."""
    if run.state in ("ended", "recorded", "incomplete"):
        return True
    if run.state == "failed":
        return run.word != "worker_died" or run.died >= fleet.limits.attempts_died
    return run.is_final


def next_group(state: EvaluationState, session: SessionPlan, fleet: Fleet) -> list[Run]:
    """Return the runs of a session's first group that is not over, those that are not over."""
    opened = [state.runs[run.run] for run in session.runs]
    waiting = [run for run in opened if not is_over(run, fleet)]
    if not waiting:
        return []
    return [run for run in waiting if run.plan.group == waiting[0].plan.group]


def _starts(state: EvaluationState, now_ns: int, fleet: Fleet) -> Iterator[Fact]:
    """Yield the start of each group whose turn it is, or the end of runs nobody can do."""
    assert state.plan is not None
    taken = {run.agent for run in state.runs.values() if run.is_under_way}
    for session in state.plan.sessions:
        group = next_group(state, session, fleet)
        if not group or not _may_start(state, group, fleet):
            continue
        agent = _agent_for(state, group, fleet)
        if agent is None:
            yield from _give_up(state, group, now_ns, fleet)
        elif agent.agent not in taken and fleet.has_turn(state.evaluation, agent.agent):
            taken.add(agent.agent)
            yield from _start(state, session, group, agent, now_ns)


def _may_start(state: EvaluationState, group: list[Run], fleet: Fleet) -> bool:
    """Tell whether a group is not under way, and not in line at an agent that lives."""
    if any(run.is_under_way for run in group):
        return False
    agent = group[0].agent
    return fleet.has_turn(state.evaluation, agent) or bool(fleet.why_gone(agent, ""))


def stand_ins(state: EvaluationState, fleet: Fleet) -> frozenset[str]:
    """Return the agents that groups wait for in place of the agents they were planned for."""
    if state.plan is None or state.state == "measured" or state.is_ended:
        return frozenset()
    groups = (next_group(state, session, fleet) for session in state.plan.sessions)
    waiting = [group for group in groups if group and _may_start(state, group, fleet)]
    found = [(_agent_for(state, group, fleet), group[0].agent) for group in waiting]
    return frozenset(each.agent for each, planned in found if each and each.agent != planned)


def _agent_for(state: EvaluationState, group: list[Run], fleet: Fleet) -> Candidate | None:
    """Return who does a group: its agent while that one fits, else another that does.

    Best is one whose turn it is, then the least loaded. An agent on which attempts of the group
    were broken off again and again gives way to one where they were not. Where every agent has
    runs of its own, no other does them: its results would count for the wrong one.
    """
    assert state.plan is not None
    try:
        subject = state.plan.subject_of(group[0].session)
        fitting = fitting_agents(_request(state), subject, fleet.catalog)
    except RequestRefused:
        return None
    if _request(state).spread == "all":
        return next((each for each in fitting if each.agent == group[0].agent), None)
    breaks = {each.agent: _breaks(group, each.agent) for each in fitting}
    for candidate in fitting:
        is_fewest = breaks[candidate.agent] == min(breaks.values())
        if candidate.agent == group[0].agent and (is_fewest or breaks[candidate.agent] < 2):
            return candidate

    def rank(candidate: Candidate) -> tuple[bool, bool, int, str]:
        agent = candidate.agent
        in_line = not fleet.has_turn(state.evaluation, agent)
        return breaks[agent] >= 2, in_line, fleet.loads.get(agent, 0), agent

    return min(fitting, key=rank, default=None)


def _breaks(group: list[Run], agent: str) -> int:
    """Return how many attempts of a group were broken off on an agent."""
    return len({attempt for run in group for where, attempt in run.strays if where == agent})


def _start(
    state: EvaluationState,
    session: SessionPlan,
    group: list[Run],
    agent: Candidate,
    now_ns: int,
) -> Iterator[RunStarted]:
    """Yield one start a run; runs of a group share their attempt, as they share an order."""
    attempt = max(run.attempt for run in group) + 1
    for run in group:
        yield RunStarted(
            evaluation=state.evaluation,
            run=run.plan.run,
            session=session.session,
            attempt=attempt,
            agent=agent.agent,
            incarnation=agent.incarnation,
            started_ns=now_ns,
        )


def _give_up(
    state: EvaluationState, group: list[Run], now_ns: int, fleet: Fleet
) -> Iterator[RunInterrupted]:
    """Yield the final end of runs that no agent can do, once waiting for one has been enough."""
    wait_s = max(_request(state).wait_s, fleet.limits.agent_grace_s)
    since_ns = max(run.since_ns or state.planned_ns for run in group)
    if now_ns < since_ns + int(wait_s * S_NS):
        return
    is_its_own = _request(state).spread == "all"
    other = "no other agent does what is this one's" if is_its_own else "no other agent fits"
    for run in group:
        cause = f"{run.cause}; {other}" if run.cause else "no agent fits any more"
        yield _interruption(state, run, cause, final=True)


def _measure(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the end of measuring once every run is over and the collector has said its word."""
    runs = state.runs.values()
    if not all(is_over(run, fleet) and _is_settled(run, now_ns, fleet) for run in runs):
        return []
    told = tuple(_measured_run(run, fleet) for run in runs)
    if not any(run.word == "completed" and run.is_stored for run in runs):
        causes = dict.fromkeys(run.cause for run in told if run.cause)
        cause = "; ".join(causes) or "no run was measured"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    return [EvaluationMeasured(evaluation=state.evaluation, runs=told)]


def _is_settled(run: Run, now_ns: int, fleet: Fleet) -> bool:
    if run.is_stored or run.state == "interrupted":
        return True
    limits = fleet.limits
    wait_s = limits.stored_wait_s if run.state == "failed" else limits.recording_wait_s
    return now_ns >= run.since_ns + int(wait_s * S_NS)


def _measured_run(run: Run, fleet: Fleet) -> MeasuredRun:
    cause = run.cause
    if run.state == "ended" and not run.is_stored:
        wait_s = fleet.limits.recording_wait_s
        cause = f"the collector said nothing of it for {wait_s:g} s"
    return MeasuredRun(
        run=run.plan.run,
        attempt=run.attempt,
        end=end_of(run),
        agent=run.agent,
        spans=run.spans,
        queries=run.queries,
        cause=cause,
    )
