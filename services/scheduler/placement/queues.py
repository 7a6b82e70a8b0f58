"""Which evaluations wait for which agent, and whose turn it is there. Mutable, without I/O.

The evaluation with the smallest position comes first. Positions are kept in heaps, and outdated
ones stay there until they come up: so the turn costs the same with ten waiting as with ten
thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

QueuePosition = tuple[bool, int, str]
"""Whether the evaluation has no run under way on the agent, its request's epoch ns, its id."""


@dataclass(slots=True)
class _Queue:
    """The evaluations that wait for one agent."""

    positions: dict[str, QueuePosition] = field(default_factory=dict)
    heap: list[QueuePosition] = field(default_factory=list)

    def put(self, position: QueuePosition) -> None:
        evaluation = position[2]
        if self.positions.get(evaluation) == position:
            return
        self.positions[evaluation] = position
        heappush(self.heap, position)
        if len(self.heap) > 2 * len(self.positions) + 16:
            self.heap = list(self.positions.values())
            heapify(self.heap)

    def first(self) -> str:
        while self.positions.get(self.heap[0][2]) != self.heap[0]:
            heappop(self.heap)
        return self.heap[0][2]


@dataclass(slots=True)
class Queues:
    """The queues of all agents that an evaluation waits for."""

    _queues: dict[str, _Queue] = field(default_factory=dict)
    _agents: dict[str, frozenset[str]] = field(default_factory=dict)

    def put(self, evaluation: str, positions: Mapping[str, QueuePosition]) -> None:
        """Set an evaluation's `positions` by agent; it leaves every other queue."""
        for agent in self._agents.pop(evaluation, frozenset()) - positions.keys():
            queue = self._queues[agent]
            del queue.positions[evaluation]
            if not queue.positions:
                del self._queues[agent]
        for agent, position in positions.items():
            self._queues.setdefault(agent, _Queue()).put(position)
        if positions:
            self._agents[evaluation] = frozenset(positions)

    def agents_of(self, evaluation: str) -> frozenset[str]:
        """Return the agents that an evaluation works on or waits for."""
        return self._agents.get(evaluation, frozenset())

    def first(self, agent: str) -> str:
        """Return the evaluation whose turn it is on an agent; '' when none waits for it."""
        queue = self._queues.get(agent)
        return queue.first() if queue else ""

    def firsts(self) -> dict[str, str]:
        """Return the evaluation whose turn it is, by agent."""
        return {agent: queue.first() for agent, queue in self._queues.items()}
