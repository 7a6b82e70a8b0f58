"""A batch on its way through the preparing processes, and the orders it is prepared by."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.agent.worker.preparation.arena import PENDING, UNUSABLE, SlotMemory
from services.agent.worker.preparation.processes import ForkedProcess


@dataclass(frozen=True, slots=True)
class Order:
    """`count` samples of a batch, from a `first` position on, which one process prepares."""

    number: int
    batch: "Batch"
    first: int
    count: int

    @property
    def pending_positions(self) -> range:
        """Its positions that are not prepared; they are prepared in order."""
        last = self.first + self.count
        pending = (at for at in range(self.first, last) if self.batch.memory.states[at] == PENDING)
        return range(next(pending, last), last)


@dataclass(slots=True)
class PreparingProcess:
    """One process with its number in the arena, and its orders that are not known to be done."""

    number: int
    process: ForkedProcess
    #: samples ordered from it and its predecessors of the same number
    ordered: int
    orders: deque[Order] = field(default_factory=deque)

    def forget_done(self, last_done: int) -> None:
        """Drop the orders up to the number `last_done`: they are carried out in order."""
        while self.orders and self.orders[0].number <= last_done:
            self.orders.popleft()


@dataclass(slots=True, eq=False)
class Batch:
    """The samples of one query, in the slot with a number."""

    slot: int
    memory: SlotMemory
    count: int
    #: number of its last order at each process, by the process's number
    last_orders: dict[int, int] = field(default_factory=dict)
    #: how often the process of a sample ended, by its position
    tries: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, slot: int, memory: SlotMemory, samples: Sequence[int]) -> "Batch":
        """Return the batch of these `samples`, none prepared, in the `memory` of a `slot`."""
        count = len(samples)
        memory.samples[:count] = samples
        memory.states[:count] = PENDING
        return cls(slot, memory, count)

    def faults(self) -> dict[int, str]:
        """Return why samples can't be prepared, by position."""
        positions = (self.memory.states[: self.count] == UNUSABLE).nonzero()[0].tolist()
        return {position: self.memory.reason(position) for position in positions}
