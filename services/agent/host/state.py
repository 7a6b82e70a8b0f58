"""The orders of an agent as a fold: the answer to `start`, and the runs that keep it busy. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from schemas.plan import WorkAnswer, WorkOrder

_MOST_REMEMBERED = 10_000

RunKey = tuple[str, str]
"""evaluation, run"""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An order was accepted."""

    order: WorkOrder


@dataclass(frozen=True, slots=True)
class Ended:
    """All runs of an order have ended."""

    order: WorkOrder


@dataclass(frozen=True, slots=True)
class Stopping:
    """The agent accepts no more orders."""


Event = Accepted | Ended | Stopping


@dataclass(frozen=True, slots=True)
class Orders:
    """Accepted orders that have not ended, oldest first, and the newest attempt of each run."""

    open: tuple[WorkOrder, ...] = ()
    attempts: Mapping[RunKey, int] = field(default_factory=dict)
    is_stopping: bool = False

    @property
    def busy(self) -> tuple[str, ...]:
        """The runs accepted and not ended, as a lease names them."""
        return tuple(
            f"{order.evaluation}/{run}/{order.attempt}" for order in self.open for run in order.runs
        )


def evolve(state: Orders, event: Event) -> Orders:
    """Return the orders after an event."""
    match event:
        case Stopping():
            return replace(state, is_stopping=True)
        case Ended():
            return replace(state, open=tuple(o for o in state.open if o is not event.order))
        case Accepted(order):
            attempts = dict(state.attempts)
            for run in order.runs:
                attempts.pop((order.evaluation, run), None)
                attempts[order.evaluation, run] = order.attempt
            newest = dict(list(attempts.items())[-_MOST_REMEMBERED:])
            return replace(state, open=(*state.open, order), attempts=newest)


def decide_start(
    state: Orders, order: WorkOrder, agent: str, incarnation: str, most_open: int
) -> tuple[WorkAnswer, tuple[Event, ...]]:
    """Return the answer to a `start` command and the events that follow from it.

    `agent` and `incarnation` name this start of this agent; `most_open` bounds its `state`'s open
    orders. The same attempt of an `order` again is accepted and changes nothing. Of an order with
    runs that were ordered before, only the others are new: no attempt is measured twice.
    """
    attempts = [state.attempts.get((order.evaluation, run), 0) for run in order.runs]
    if order.agent != agent or not order.runs:
        return _refused("unknown", f"this is agent {agent}; the order is for {order.agent}"), ()
    if order.incarnation not in ("", incarnation):
        return _refused("stale", "the order is for another start of this agent"), ()
    if any(attempt > order.attempt for attempt in attempts):
        return _refused("stale", f"attempt {max(attempts)} is known, {order.attempt} is older"), ()
    if all(attempt == order.attempt for attempt in attempts):
        return WorkAnswer(accepted=True, message="known"), ()
    if state.is_stopping:
        return _refused("stopping", "this agent is stopping"), ()
    if len(state.open) >= most_open:
        return _refused("busy", f"{len(state.open)} orders are waiting; try again later"), ()
    numbered = zip(order.runs, attempts, strict=True)
    new_runs = tuple(run for run, attempt in numbered if attempt < order.attempt)
    if new_runs != order.runs:
        order = order.model_copy(update={"runs": new_runs})
    return WorkAnswer(accepted=True), (Accepted(order),)


def _refused(error: str, message: str) -> WorkAnswer:
    return WorkAnswer(accepted=False, error=error, message=message)
