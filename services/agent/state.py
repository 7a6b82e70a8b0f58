"""Orders an agent has: what it answers to `start`, and what keeps it busy. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from schemas.plan import WorkAnswer, WorkOrder

_MOST_REMEMBERED = 10_000

RunKey = tuple[str, str]
"""evaluation, run"""


def _none() -> Mapping[RunKey, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Accepted:
    """An order was accepted."""

    order: WorkOrder


@dataclass(frozen=True, slots=True)
class Ended:
    """An order's runs have ended, however."""

    order: WorkOrder


@dataclass(frozen=True, slots=True)
class Stopping:
    """The agent takes no more orders."""


Event = Accepted | Ended | Stopping


@dataclass(frozen=True, slots=True)
class Orders:
    """Accepted orders not ended, oldest first, and the newest attempt known of each run."""

    open: tuple[WorkOrder, ...] = ()
    attempts: Mapping[RunKey, int] = field(default_factory=_none)
    stopping: bool = False

    @property
    def busy(self) -> tuple[str, ...]:
        """Return the runs accepted and not ended, as a lease names them."""
        return tuple(
            f"{order.evaluation}/{run}/{order.attempt}" for order in self.open for run in order.runs
        )


def evolve(state: Orders, event: Event) -> Orders:
    """Return the orders after an event."""
    if isinstance(event, Stopping):
        return replace(state, stopping=True)
    if isinstance(event, Ended):
        return replace(state, open=tuple(o for o in state.open if o is not event.order))
    order = event.order
    attempts = dict(state.attempts)
    for run in order.runs:
        attempts.pop((order.evaluation, run), None)
        attempts[order.evaluation, run] = order.attempt
    newest = dict(list(attempts.items())[-_MOST_REMEMBERED:])
    return replace(state, open=(*state.open, order), attempts=newest)


def decide_start(
    state: Orders, order: WorkOrder, agent: str, incarnation: str, most_open: int
) -> tuple[WorkAnswer, tuple[Event, ...]]:
    """Return the answer to a `start` and what follows from it.

    The same attempt again is accepted and changes nothing.
    """
    known = [state.attempts.get((order.evaluation, run), 0) for run in order.runs]
    if order.agent != agent or not order.runs:
        return _refused("unknown", f"this is agent {agent}; the order is for {order.agent}"), ()
    if order.incarnation not in ("", incarnation):
        return _refused("stale", "the order is for another start of this agent"), ()
    if any(attempt > order.attempt for attempt in known):
        return _refused("stale", f"attempt {max(known)} is known, {order.attempt} is older"), ()
    if all(attempt == order.attempt for attempt in known):
        return WorkAnswer(accepted=True, message="known"), ()
    if state.stopping:
        return _refused("stopping", "this agent is stopping"), ()
    if len(state.open) >= most_open:
        return _refused("busy", f"{len(state.open)} orders are waiting; ask again later"), ()
    return WorkAnswer(accepted=True), (Accepted(order),)


def _refused(error: str, message: str) -> WorkAnswer:
    return WorkAnswer(accepted=False, error=error, message=message)
