"""The orders of one start of an agent: waiting, under way, and stops that came early.

Mutable: commands put orders and stops in, the loop that does the orders takes them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from mlscope.tracing.clock import now_ns
from schemas.plan import WorkAnswer, WorkOrder
from services.agent.host.execution import Execution
from services.agent.host.state import Accepted, Ended, Event, Orders, decide_start, evolve
from services.agent.link.messages import AttemptKey

MOST_OPEN_ORDERS = 64


class OrderQueue:
    """The orders of one start of an agent, in the order they came."""

    def __init__(self, agent: str, incarnation: str) -> None:
        self._agent, self._incarnation = agent, incarnation
        self._orders = Orders()
        self._waiting: asyncio.Queue[WorkOrder] = asyncio.Queue()
        #: stops of runs that have not begun, with their reasons
        self._early_stops: dict[AttemptKey, str] = {}
        #: set with every event: the lease must be renewed
        self.changed = asyncio.Event()
        #: CLOCK_MONOTONIC; when fetching files for the order under way began and ended (0: not yet)
        self._fetch_ns: tuple[int, int] | None = None
        self._fetches_for: tuple[str, ...] = ()
        #: the order under way
        self.execution: Execution | None = None

    @property
    def busy(self) -> tuple[str, ...]:
        """The runs accepted and not ended, as a lease names them."""
        return self._orders.busy

    @property
    def fetch_elapsed_s(self) -> dict[str, float]:
        """How long fetching files took so far, in seconds, by run as a lease names it."""
        if self._fetch_ns is None:
            return {}
        began_ns, ended_ns = self._fetch_ns
        elapsed_s = ((ended_ns or now_ns()) - began_ns) * 1e-9
        return dict.fromkeys(self._fetches_for, elapsed_s)

    @contextmanager
    def fetching(self, order: WorkOrder) -> Iterator[None]:
        """Time the fetching of files for the order under way: no run can begin before it ends."""
        began_ns = now_ns()
        self._fetch_ns, self._fetches_for = (
            (began_ns, 0),
            tuple(map(lease_name, attempt_keys(order))),
        )
        try:
            yield
        finally:
            self._fetch_ns = (began_ns, now_ns())
            self.changed.set()

    def apply(self, event: Event) -> None:
        """Change the state by an event."""
        self._orders = evolve(self._orders, event)
        self.changed.set()
        if isinstance(event, Ended):
            self._fetch_ns = None
            for key in attempt_keys(event.order):
                self._early_stops.pop(key, None)

    def accept(self, order: WorkOrder) -> tuple[WorkAnswer, bool]:
        """Accept an order or refuse it; return the answer, and whether the order is new."""
        answer, events = decide_start(
            self._orders, order, self._agent, self._incarnation, MOST_OPEN_ORDERS
        )
        for event in events:
            self.apply(event)
            if isinstance(event, Accepted):
                self._waiting.put_nowait(event.order)
        return answer, bool(events)

    async def next(self) -> WorkOrder:
        """Wait for the next order and return it."""
        return await self._waiting.get()

    def execution_of(self, key: AttemptKey) -> Execution | None:
        """Return the execution that has this attempt under way, or None."""
        execution = self.execution
        if execution is None or key.run not in execution.publisher.open_runs:
            return None
        order = execution.order
        is_same = (order.evaluation, order.attempt) == (key.evaluation, key.attempt)
        return execution if is_same else None

    def stop_early(self, key: AttemptKey, reason: str) -> bool:
        """Keep a stop until its run begins; False when no such run is waiting."""
        is_waiting = lease_name(key) in self._orders.busy
        if is_waiting:
            self._early_stops[key] = reason
        return is_waiting

    def early_stops(self, order: WorkOrder) -> dict[str, str]:
        """Return by run why runs of an order were stopped before they began."""
        stops = self._early_stops
        return {key.run: stops[key] for key in attempt_keys(order) if key in stops}


def attempt_keys(order: WorkOrder) -> tuple[AttemptKey, ...]:
    """Return the key of each attempt of an order."""
    return tuple(AttemptKey(order.evaluation, run, order.attempt) for run in order.runs)


def lease_name(key: AttemptKey) -> str:
    """Return the name of an attempt in a lease."""
    return "/".join(map(str, key))
