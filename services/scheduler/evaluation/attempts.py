"""Attempts at runs: which are interrupted, when one is late, and when a run is over. Pure."""

from collections.abc import Iterator, Sequence

from schemas.evaluation import RunInterrupted
from schemas.message import Fact
from services.scheduler.evaluation.state import EvaluationState, Run
from services.scheduler.placement.fleet import Attempt, Fleet, Limits

S_NS = 1_000_000_000


def interruption(
    state: EvaluationState, run: Run, cause: str, *, final: bool = False
) -> RunInterrupted:
    """Return the end of the newest attempt of a `run` of `state` before it is complete.

    `cause` is what the run's status shows; no attempt follows a `final` one.
    """
    return RunInterrupted(
        evaluation=state.evaluation,
        run=run.run,
        attempt=run.attempt,
        agent=run.agent,
        cause=cause,
        final=final,
    )


def decide_broken(
    state: EvaluationState, runs: Sequence[str], attempt: int, cause: str, limits: Limits
) -> list[Fact]:
    """Return the facts that interrupt an attempt that cannot go on, in an evaluation's `state`.

    Of `runs` those are interrupted whose attempt number `attempt` is still under way; `cause` is
    what their status shows, `limits` say how many attempts may be lost before a run is given up.
    """
    planned = [state.runs[name] for name in runs if name in state.runs]
    return [
        interruption(state, run, cause, final=run.attempts_lost + 1 >= limits.attempts_lost)
        for run in planned
        if run.attempt == attempt and run.is_under_way and not state.is_ended
    ]


def interruptions_due(state: EvaluationState, now_ns: int, fleet: Fleet) -> Iterator[Fact]:
    """Yield the ends of attempts whose agent or issuer is gone, or that are past their deadline.

    `state` is their evaluation's, `now_ns` is epoch nanoseconds, and `fleet` says who lives.
    """
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
            yield interruption(state, run, "time-out: the agent did not end it", final=True)


def deadline_ns(state: EvaluationState, run: Run, fleet: Fleet) -> int:
    """Return the epoch ns at which the newest attempt of a `run` is ended as a last resort.

    `state` is its evaluation's; `fleet` has the limits, and the seconds spent on fetching files.
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


def is_counted(run: Run, now_ns: int, fleet: Fleet) -> bool:
    """Tell whether the collector has reported on a `run`, or need not be waited for any longer.

    It is waited for as long as the limits of `fleet` say; `now_ns` is epoch nanoseconds.
    """
    if run.stored is not None or run.state == "interrupted":
        return True
    limits = fleet.limits
    wait_s = limits.stored_wait_s if run.state == "failed" else limits.recording_wait_s
    return now_ns >= run.since_ns + int(wait_s * S_NS)
