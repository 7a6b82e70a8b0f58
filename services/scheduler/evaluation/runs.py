"""A run with what only the scheduler needs to know of it. Pure.

The record of its newest attempt is the shared fold's, `mlscope.evaluation.run`. `schedule_run`
adds the plan, the agent's start, the issuer of its load, and the attempts that were lost.
"""

from dataclasses import dataclass, fields, replace

from mlscope.evaluation.run import RunRecord, is_by_its_agent
from schemas.evaluation import RunEnd, RunInterrupted, RunIssued, RunStarted
from schemas.message import Fact
from schemas.plan import RunPlan
from schemas.run import RunFailed, RunReady


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(RunRecord):
    """One run of the plan. Times are epoch nanoseconds."""

    plan: RunPlan
    #: the agent's start that the newest attempt belongs to
    incarnation: str = ""
    started_ns: int = 0
    #: when its state last changed
    since_ns: int = 0
    is_ready: bool = False
    issuer: str = ""
    issued_ns: int = 0
    #: attempts that ended because the agent or issuer was lost, or because the worker died
    lost: int = 0
    died: int = 0
    #: (agent, attempt) of each interrupted attempt: the agent may still be at work on it
    interrupted_attempts: tuple[tuple[str, int], ...] = ()


def run_of(record: RunRecord, plan: RunPlan) -> Run:
    """Return a run that was just planned."""
    values = {field.name: getattr(record, field.name) for field in fields(RunRecord)}
    return Run(plan=plan, **values)


def schedule_run(before: Run, after: Run, fact: Fact, time_ns: int) -> Run:
    """Return a run with the scheduler's own fields after a fact.

    `before` and `after` are the run before and after the shared fold took the fact, `time_ns` is
    the epoch time of the fact's envelope.
    """
    match fact:
        case RunStarted() if after is not before:
            return replace(
                after,
                incarnation=fact.incarnation,
                started_ns=fact.started_ns,
                since_ns=time_ns,
                is_ready=False,
                issuer="",
                issued_ns=0,
            )
        case RunReady() if is_by_its_agent(before, fact):
            return replace(after, is_ready=True)
        case RunIssued() if before.is_under_way and not before.issuer:
            return replace(after, issuer=fact.issuer, issued_ns=time_ns)
        case RunInterrupted() if after is not before and before.is_under_way:
            return replace(
                after,
                since_ns=time_ns,
                lost=before.lost + 1,
                interrupted_attempts=(
                    *before.interrupted_attempts,
                    (before.agent, before.attempt),
                ),
            )
        case RunFailed(error="worker_died") if after.state != before.state:
            return replace(after, since_ns=time_ns, died=before.died + 1)
    is_changed = (after.state, after.is_final) != (before.state, before.is_final)
    return replace(after, since_ns=time_ns) if is_changed else after


def end_of(run: Run) -> RunEnd:
    """Return how a run that is over ended; completed without the collector's report: incomplete."""
    if run.state == "incomplete" or (run.state == "ended" and run.stored is None):
        return "incomplete"
    return "completed" if run.outcome == "completed" else "failed"
