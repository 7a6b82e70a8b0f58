"""A run with what only the scheduler needs to know of it. Pure.

The record of its newest attempt is the shared fold's, `mlscope.evaluation.run`. `schedule_run`
adds the plan, the agent's start, the issuer of its load, and the attempts that were lost.
"""

from dataclasses import dataclass, fields, replace

from mlscope.evaluation.run import RunRecord, is_by_its_agent
from schemas.evaluation import MeasuredRun, RunEnd, RunInterrupted, RunIssued, RunStarted
from schemas.message import Fact
from schemas.plan import RunPlan
from schemas.run import RunCompleted, RunFailed, RunReady
from schemas.status import RowCounts


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
    attempts_lost: int = 0
    died: int = 0
    #: (agent, attempt) of each interrupted attempt: the agent may still be at work on it
    interrupted_attempts: tuple[tuple[str, int], ...] = ()
    #: the median of its first block's queries: of an opening of the model, the time it took
    first_block_ns: int = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether an agent works on it, or may have to."""
        if self.state == "failed":
            return self.outcome == "worker_died" and not self.is_final
        return self.state in ("planned", "started", "interrupted") and not self.is_final

    @property
    def awaits_issuer(self) -> bool:
        """Whether its newest attempt is ready for a remote load that nobody has claimed."""
        is_claimable = self.is_under_way and self.is_ready and not self.issuer
        return is_claimable and self.plan.pacing == "remote"


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
                attempts_lost=before.attempts_lost + 1,
                interrupted_attempts=(
                    *before.interrupted_attempts,
                    (before.agent, before.attempt),
                ),
            )
        case RunFailed(error="worker_died") if after.state != before.state:
            return replace(after, since_ns=time_ns, died=before.died + 1)
    if isinstance(fact, RunCompleted) and fact.blocks and is_by_its_agent(before, fact):
        after = replace(after, first_block_ns=fact.blocks[0].median_ns)
    is_changed = (after.state, after.is_final) != (before.state, before.is_final)
    return replace(after, since_ns=time_ns) if is_changed else after


def end_of(run: Run) -> RunEnd:
    """Return how a run that is over ended; completed without the collector's report: incomplete."""
    if run.state == "cancelled":
        return "cancelled"
    if run.state == "incomplete" or (run.state == "ended" and run.stored is None):
        return "incomplete"
    return "completed" if run.outcome == "completed" else "failed"


def measured_run(run: Run, silence: str) -> MeasuredRun:
    """Return how a run that is over ended, and its rows by the collector's report.

    `silence` is the cause given for a run that ended without such a report.
    """
    counts = run.stored or RowCounts()
    return MeasuredRun(
        run=run.run,
        attempt=run.attempt,
        end=end_of(run),
        agent=run.agent,
        spans=counts.spans,
        queries=counts.queries,
        cause=silence if run.state == "ended" and run.stored is None else run.cause,
    )
