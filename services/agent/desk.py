"""What one start of an agent has to do: orders that wait, the one under way, stops ahead of both.

Mutable, without I/O: commands put things here, the loop that does the orders takes them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from mlscope.tracing.clock import now_ns
from schemas.plan import WorkAnswer, WorkOrder
from services.agent.execution import Execution
from services.agent.state import Accepted, Ended, Event, Orders, decide_start, evolve

MOST_OPEN_ORDERS = 64

RunName = tuple[str, str, int]
"""evaluation, run, attempt"""


class Desk:
    """The orders of one start of an agent, in the order they came."""

    def __init__(self, agent: str, incarnation: str) -> None:
        self._agent, self._incarnation = agent, incarnation
        self._orders = Orders()
        self._waiting: asyncio.Queue[WorkOrder] = asyncio.Queue()
        #: stops of runs that have not begun, with their reasons
        self._stops: dict[RunName, str] = {}
        #: set with every event: what the lease says is to be said anew
        self.changed = asyncio.Event()
        #: when (CLOCK_MONOTONIC) bringing the files of the order under way began and ended
        self._bringing: tuple[int, int] | None = None
        self._brings_for: tuple[str, ...] = ()
        #: the order under way
        self.execution: Execution | None = None

    @property
    def busy(self) -> tuple[str, ...]:
        """Return the runs accepted and not ended, as a lease names them."""
        return self._orders.busy

    @property
    def brought_s(self) -> dict[str, float]:
        """Return how long, so far, the files of busy runs took to be brought, as a lease has it."""
        if self._bringing is None:
            return {}
        began_ns, ended_ns = self._bringing
        took_s = ((ended_ns or now_ns()) - began_ns) * 1e-9
        return dict.fromkeys(self._brings_for, took_s)

    @contextmanager
    def bringing(self, order: WorkOrder) -> Iterator[None]:
        """Count how long the files of the order under way take: no run can begin before."""
        began_ns = now_ns()
        self._bringing, self._brings_for = (began_ns, 0), tuple(map(text_of, names_of(order)))
        try:
            yield
        finally:
            self._bringing = (began_ns, now_ns())
            self.changed.set()

    def change(self, event: Event) -> None:
        """Take an event into account."""
        self._orders = evolve(self._orders, event)
        self.changed.set()
        if isinstance(event, Ended):
            self._bringing = None
            for name in names_of(event.order):
                self._stops.pop(name, None)

    def take(self, order: WorkOrder) -> tuple[WorkAnswer, bool]:
        """Accept an order or refuse it; return the answer, and whether it is a new one."""
        answer, events = decide_start(
            self._orders, order, self._agent, self._incarnation, MOST_OPEN_ORDERS
        )
        for event in events:
            self.change(event)
            if isinstance(event, Accepted):
                self._waiting.put_nowait(order)
        return answer, bool(events)

    async def next(self) -> WorkOrder:
        """Return the order whose turn it is, once there is one."""
        return await self._waiting.get()

    def running(self, name: RunName) -> Execution | None:
        """Return the execution that has this very attempt under way."""
        execution = self.execution
        if execution is None or name[1] not in execution.telling.left:
            return None
        order = execution.order
        return execution if (order.evaluation, order.attempt) == (name[0], name[2]) else None

    def stop_ahead(self, name: RunName, reason: str) -> bool:
        """Note a stop for when the run's turn comes; False when no such run is waiting."""
        is_known = text_of(name) in self._orders.busy
        if is_known:
            self._stops[name] = reason
        return is_known

    def stops_of(self, order: WorkOrder) -> dict[str, str]:
        """Return which runs of an order were asked to end before they began, and why."""
        return {name[1]: self._stops[name] for name in names_of(order) if name in self._stops}


def names_of(order: WorkOrder) -> tuple[RunName, ...]:
    """Return what names each attempt of an order."""
    return tuple((order.evaluation, run, order.attempt) for run in order.runs)


def text_of(name: RunName) -> str:
    """Return an attempt's name as a lease has it."""
    return "/".join(map(str, name))
