"""The first lane that has room for an interval, found without trying the lanes before it. Pure."""

from heapq import heappop, heappush
from math import inf


class FirstFit:
    """Lanes, numbered from 0, in each of which intervals nest or follow one another.

    An interval gets the first lane that has room: it is empty, or the innermost interval that is
    open there ends no earlier. Each takes time logarithmic in the number of intervals.
    """

    def __init__(self) -> None:
        """Begin with empty lanes."""
        # The ends of the intervals that are open in each lane that was used, the innermost last.
        self._open: list[list[int]] = []
        # A heap of the same ends, each with its lane: the next one to end comes first.
        self._endings: list[tuple[int, int]] = []
        # Up to which end each lane has room: the leaves of a binary tree, the second half of the
        # list. Above them, node n has the most of nodes 2n and 2n + 1. One lane is always unused.
        self._rooms: list[float] = [inf, inf]

    def place(self, start: int, end: int) -> int:
        """Put an interval into the first lane that has room for it, and return that lane.

        `start`: no earlier than that of the interval before; what ends there leaves its lane.
        `end`: of several intervals with one start, the last one comes first.
        """
        while self._endings and self._endings[0][0] <= start:
            _, lane = heappop(self._endings)
            ends = self._open[lane]
            ends.pop()
            self._set_room(lane, ends[-1] if ends else inf)
        lane = self._first_with_room(end)
        if lane == len(self._open):
            self._open.append([])
            self._grow()
        self._open[lane].append(end)
        heappush(self._endings, (end, lane))
        self._set_room(lane, end)
        return lane

    def _first_with_room(self, end: int) -> int:
        node, first_leaf = 1, len(self._rooms) // 2
        while node < first_leaf:
            node *= 2
            if self._rooms[node] < end:
                node += 1
        return node - first_leaf

    def _set_room(self, lane: int, room: float) -> None:
        node = len(self._rooms) // 2 + lane
        self._rooms[node] = room
        while node := node // 2:
            self._rooms[node] = max(self._rooms[2 * node], self._rooms[2 * node + 1])

    def _grow(self) -> None:
        """Double the lanes where all were used."""
        count = len(self._rooms) // 2
        if len(self._open) < count:
            return
        self._rooms = [inf] * (2 * count) + self._rooms[count:] + [inf] * count
        for node in range(2 * count - 1, 0, -1):
            self._rooms[node] = max(self._rooms[2 * node], self._rooms[2 * node + 1])
