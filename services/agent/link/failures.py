"""Failed runs, as both the host and the worker report them."""

from mlscope.evaluation.run import MOST_CHARACTERS
from mlscope.texts.shortening import at_most
from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import ended_origin
from schemas.level import Level
from schemas.plan import WorkOrder
from schemas.run import ClockOrigin, Conditions, RunFailed, Tally
from services.agent.errors import AgentError


def run_failed(
    attempt: Attempt,
    error: AgentError,
    tally: Tally | None = None,
    origin: ClockOrigin | None = None,
    conditions: Conditions | None = None,
    level: Level = Level.NONE,
) -> RunFailed:
    """Return the outcome of a run that failed.

    `attempt` names it and `error` is its cause. `tally` announces the batches handed over before
    the failure; `origin`, `conditions` and `level` are those of the run, where it began.
    """
    return RunFailed(
        evaluation=attempt.evaluation,
        run=attempt.run,
        attempt=attempt.attempt,
        agent=attempt.agent,
        error=error.kind,
        message=at_most(str(error), MOST_CHARACTERS),
        tally=tally or Tally(),
        origin=None if origin is None else ended_origin(origin),
        conditions=conditions or Conditions(),
        level=level,
    )


def failed_before_start(order: WorkOrder, run: str, error: AgentError) -> RunFailed:
    """Return the outcome of a `run` of an `order` that failed with an `error` before it began."""
    return run_failed(Attempt(order.evaluation, run, order.attempt, order.agent), error)
