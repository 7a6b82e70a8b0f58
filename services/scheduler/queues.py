"""Who waits for which agent, and whose turn it is there. Mutable, without I/O.

An evaluation's place is better the smaller it is. Places are kept in heaps, where outdated ones
stay until they come up: whose turn it is costs the same with ten waiting as with ten thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

Place = tuple[bool, int, str]
"""Whether it only waits, when it was requested, and the evaluation."""


@dataclass(slots=True)
class _Queue:
    """The evaluations that wait for one agent."""

    places: dict[str, Place] = field(default_factory=dict)
    heap: list[Place] = field(default_factory=list)

    def put(self, place: Place) -> None:
        if self.places.get(place[2]) == place:
            return
        self.places[place[2]] = place
        heappush(self.heap, place)
        if len(self.heap) > 2 * len(self.places) + 16:
            self.heap = list(self.places.values())
            heapify(self.heap)

    def first(self) -> str:
        while self.places.get(self.heap[0][2]) != self.heap[0]:
            heappop(self.heap)
        return self.heap[0][2]


@dataclass(slots=True)
class Queues:
    """The queues of all agents that anybody waits for."""

    _queues: dict[str, _Queue] = field(default_factory=dict)
    _agents: dict[str, frozenset[str]] = field(default_factory=dict)

    def put(self, name: str, places: Mapping[str, Place]) -> None:
        """Set an evaluation's places, by agent; it leaves every other queue."""
        for agent in self._agents.pop(name, frozenset()) - places.keys():
            queue = self._queues[agent]
            del queue.places[name]
            if not queue.places:
                del self._queues[agent]
        for agent, place in places.items():
            self._queues.setdefault(agent, _Queue()).put(place)
        if places:
            self._agents[name] = frozenset(places)

    def agents_of(self, name: str) -> frozenset[str]:
        """Return the agents an evaluation waits for or has."""
        return self._agents.get(name, frozenset())

    def first(self, agent: str) -> str:
        """Return whose turn it is on an agent; '' when nobody waits for it."""
        queue = self._queues.get(agent)
        return queue.first() if queue else ""

    def firsts(self) -> dict[str, str]:
        """Return whose turn it is on every agent that anybody waits for."""
        return {agent: queue.first() for agent, queue in self._queues.items()}
