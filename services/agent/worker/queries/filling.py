"""What fills slots with the samples of queries, and the threads of the worker that do.

Queries are prepared in the order in which they came. The batches on their way are limited by the
slots; queries that are not yet prepared wait as indices.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from services.agent.worker.queries.being_prepared import POLL_S, Preparation
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages

_SHARES_PER_THREAD = 4
"""Parts of a batch for each thread: few, yet the last thread to finish is not waited for long."""


class Filling(Protocol):
    """Fills slots."""

    @property
    def loops(self) -> Sequence[Callable[[], None]]:
        """What runs on a thread each until the queries end or are abandoned."""

    def put(self, query: Query | None) -> None:
        """Take the next query; None is the end."""

    def next_filled(self) -> Query | None:
        """Wait for the next query whose slot is filled; None at the end, or when abandoned."""

    def record(self, query: Query) -> None:
        """Record the spans of a query's preparation, unless they are recorded already."""

    def release(self, slot: Slot) -> None:
        """Take back the slot of a query that is finished."""

    def abandon(self) -> None:
        """End the loops without filling further slots."""

    def close(self) -> None:
        """Give up what is still prepared, once all threads have ended."""


class ThreadFilling:
    """Threads share each batch's samples; the thread that waits for a batch prepares some, too.

    Decoding and resizing in Pillow release the interpreter, as the framework's kernels do; the rest
    of preparation does not, and takes it from the thread that predicts.
    """

    def __init__(self, stages: Stages, slots: Sequence[Slot]) -> None:
        self._stages = stages
        self.loops = [self._prepare_loop] * stages.workers
        self._waiting: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        self._free_slots: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        for slot in slots:
            self._free_slots.put(slot)
        #: in order, as their preparation begins: limited by the slots
        self._preparations: queue.SimpleQueue[Preparation | None] = queue.SimpleQueue()
        #: positions in batches that no thread prepares yet
        self._shares: deque[tuple[Preparation, range]] = deque()
        self._begin_lock, self._count_lock = threading.Lock(), threading.Lock()
        self._is_abandoned = False
        self.put, self.release = self._waiting.put, self._free_slots.put

    def next_filled(self) -> Query | None:
        """Help until the next query's samples are prepared; None at the end, or when abandoned."""
        preparation = self._preparations.get()
        while preparation is not None and not self._is_abandoned:
            if preparation.ready.acquire(blocking=False):
                return preparation.query
            if not self._prepare_share() and preparation.ready.acquire(timeout=POLL_S):
                return preparation.query
        return None

    def record(self, query: Query) -> None:
        """Do nothing: each step's span was recorded when it ended."""

    def abandon(self) -> None:
        """End the loops without filling further slots."""
        self._is_abandoned = True
        for line in (self._waiting, self._preparations, self._free_slots):
            line.put(None)

    def close(self) -> None:
        """Do nothing: its threads have ended."""

    def _prepare_loop(self) -> None:
        while not self._is_abandoned and (self._prepare_share() or self._begin_next()):
            pass

    def _prepare_share(self) -> bool:
        """Prepare some samples of a batch that was begun; False when none are left."""
        try:
            preparation, positions = self._shares.popleft()
        except IndexError:
            return False
        self._stages.fill(preparation.query, positions)
        with self._count_lock:
            preparation.remaining -= len(positions)
            is_ready = preparation.remaining == 0
        if is_ready:
            preparation.ready.release()
        return True

    def _begin_next(self) -> bool:
        """Wait for a query and a slot, unless another worker just did; False at the end."""
        with self._begin_lock:
            if self._shares:
                return True
            query = self._waiting.get()
            slot = self._free_slots.get() if query is not None and not self._is_abandoned else None
            if query is None or slot is None:
                # The other workers must see the end as well.
                self._waiting.put(None)
                self._preparations.put(None)
                return False
            self._stages.begin(query, slot)
            count = len(query.samples)
            preparation = Preparation(query, count)
            shares = (self._stages.workers + 1) * _SHARES_PER_THREAD
            size = count if self._stages.fills_whole_batches else max(1, count // shares)
            positions = range(count)
            self._shares.extend(
                (preparation, positions[first : first + size]) for first in positions[::size]
            )
            self._preparations.put(preparation)
            return True
