"""The decisions that follow from an evaluation's state, the fleet and the time. Pure.

`decide` returns the facts to record next; once they are recorded and folded, it does not return
them again. The caller asks again until it returns none. Commands to agents are in `effects`.
"""

from dataclasses import replace

from mlscope.evaluation.fold import cancel_evaluation
from mlscope.evaluation.run import awaits_count, cancellation_cause, is_cut_off
from schemas.evaluation import (
    NO_AGENT_FITS,
    NO_AGENT_KNOWN,
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
)
from schemas.message import Fact
from services.scheduler.errors import RequestRefused
from services.scheduler.evaluation.attempts import (
    S_NS,
    interruption,
    interruptions_due,
    is_counted,
    is_over,
)
from services.scheduler.evaluation.openings import openings_due
from services.scheduler.evaluation.runs import measured_run
from services.scheduler.evaluation.starting import starts_due
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan


def decide(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the facts that follow now from a `state`, in order; empty when nothing follows.

    `fleet` is the agents and limits as they are known now, `now_ns` is epoch nanoseconds. Planning
    may make loads, which takes seconds: see `is_slow`.
    """
    if state.state == "cancelled" and not state.tables:
        if state.analyzed:
            return [_analyzed(state, state.analyzed)]
        return _measured_until_cancelled(state)
    if not state.is_known or state.is_ended:
        return []
    if state.plan is None:
        return _plan_or_postpone(state, now_ns, fleet)
    if state.state == "measured":
        return _end_of_analysis(state, now_ns, fleet)
    due = (
        list(interruptions_due(state, now_ns, fleet))
        or list(openings_due(state))
        or list(starts_due(state, now_ns, fleet))
    )
    return due or _measured(state, now_ns, fleet)


def is_slow(state: EvaluationState) -> bool:
    """Tell whether deciding on a state takes too long for an event loop."""
    return state.is_known and not state.is_ended and state.plan is None


def decide_cancel(state: EvaluationState, reason: str, cancelled_by: str = "") -> list[Fact]:
    """Return the facts that end an evaluation in `state` on request.

    If nothing is under way, its complete runs are measured now; else `decide` says so later.
    `reason` is why, `cancelled_by` the person who cancels it, '' for the cluster's user.
    """
    cause = cancellation_cause(reason)
    interruptions: list[Fact] = [
        interruption(state, run, cause, final=True)
        for run in state.runs.values()
        if run.is_under_way
    ]
    cancelled = EvaluationCancelled(
        evaluation=state.evaluation, reason=reason, cancelled_by=cancelled_by
    )
    after = cancel_evaluation(state, cancelled)
    return [*interruptions, cancelled, *_measured_until_cancelled(after)]


def _measured_until_cancelled(state: EvaluationState) -> list[Fact]:
    """Return the fact about the runs of a cancelled evaluation that have rows, once.

    These are the complete ones and those that were cut off. The collector counts the rows of the
    latter once their agents have stopped, or it gives these up; until then there is no fact. The
    analyzer waits for rows of complete runs that are announced and not stored yet.
    """
    runs = state.runs.values()
    if state.measured_ns or any(map(awaits_count, runs)):
        return []
    measured = tuple(
        measured_run(replace(run, stored=run.stored or run.announced), "")
        for run in runs
        if run.outcome == "completed" or is_cut_off(run)
    )
    return [EvaluationMeasured(evaluation=state.evaluation, runs=measured)] if measured else []


def _plan_or_postpone(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the plan, or the wait for an agent that fits, or the failure once that was enough."""
    request, evaluation = state.known_request, state.evaluation
    try:
        matched = match(request, fleet.catalog, fleet.loads, now_ns)
        if matched.agents:
            planned = plan(request, matched, fleet.catalog, fleet.shapes)
            return [EvaluationPlanned(evaluation=evaluation, plan=planned)]
    except RequestRefused as refused:
        return [EvaluationFailed(evaluation=evaluation, cause=refused.refused.message)]
    reasons = matched.reasons
    # A request without a wait was accepted because an agent fitted, which may be starting again.
    wait_s = request.wait_s or fleet.limits.agent_grace_s
    until_ns = state.requested_ns + int(wait_s * S_NS)
    if now_ns >= until_ns:
        cause = NO_AGENT_FITS if reasons else NO_AGENT_KNOWN
        return [EvaluationFailed(evaluation=evaluation, cause=cause, agents=reasons)]
    if state.state == "postponed":
        return []
    return [EvaluationPostponed(evaluation=evaluation, agents=reasons, until_ns=until_ns)]


def _end_of_analysis(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    if state.analysis_failed:
        cause = f"analysis failed: {state.analysis_failed}"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    if state.analyzed is not None:
        return [_analyzed(state, state.analyzed)]
    wait_s = fleet.limits.analysis_wait_s
    if now_ns >= state.measured_ns + int(wait_s * S_NS):
        cause = f"analysis failed: the analyzer did not report for {wait_s:g} s"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    return []


def _analyzed(state: EvaluationState, tables: tuple[str, ...]) -> EvaluationAnalyzed:
    headlines = state.found_headlines
    return EvaluationAnalyzed(evaluation=state.evaluation, tables=tables, headlines=headlines)


def _measured(state: EvaluationState, now_ns: int, fleet: Fleet) -> list[Fact]:
    """Return the end of measuring, once every run is over and the collector has reported on it."""
    runs = state.runs.values()
    if not all(is_over(run, fleet) and is_counted(run, now_ns, fleet) for run in runs):
        return []
    silence = f"the collector did not report on it for {fleet.limits.recording_wait_s:g} s"
    measured = tuple(measured_run(run, silence) for run in runs)
    if not any(run.outcome == "completed" and run.stored is not None for run in runs):
        causes = dict.fromkeys(run.cause for run in measured if run.cause)
        cause = "; ".join(causes) or "no run was measured"
        return [EvaluationFailed(evaluation=state.evaluation, cause=cause)]
    return [EvaluationMeasured(evaluation=state.evaluation, runs=measured)]
