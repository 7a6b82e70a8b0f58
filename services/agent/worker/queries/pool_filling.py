"""Fills slots by processes of their own: their samples are prepared while the worker predicts."""

import queue
import threading
from collections import deque
from collections.abc import Sequence

from services.agent.worker.preparation.batch import Batch
from services.agent.worker.preparation.pool import PreparationPool
from services.agent.worker.queries.being_prepared import POLL_S, Preparation
from services.agent.worker.queries.prepared_spans import PreparedSteps
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages

MOST_KEPT_BYTES = 1 << 20
"""Stamps of about 13,000 samples of five steps, more than most blocks have."""


class PoolFilling:
    """The processes of a `pool` fill the `slots`, which lie in its arena, for a run's `stages`.

    Whoever issues a query or frees a slot orders what can be ordered: a thread of its own would
    have to win the interpreter from the one that predicts. Queries that bring their own samples are
    prepared by a thread.
    """

    def __init__(self, stages: Stages, slots: Sequence[Slot], pool: PreparationPool) -> None:
        self._stages, self._pool = stages, pool
        self.loops = [self._fill_loop]
        self._lock = threading.Lock()
        self._waiting: deque[Query | None] = deque()
        self._free_slots = deque(slots)
        self._ordered: queue.SimpleQueue[tuple[Query, Batch | Preparation] | None] = (
            queue.SimpleQueue()
        )
        #: the head of that line, once `is_filled` has looked at it
        self._next: list[tuple[Query, Batch | Preparation] | None] = []
        self._own_samples: queue.SimpleQueue[Preparation | None] = queue.SimpleQueue()
        #: when samples were prepared whose spans are not recorded yet
        self._kept: list[PreparedSteps] = []
        self._kept_bytes = 0
        self._is_abandoned = False
        pool.begin_block()
        stages.prepared_by.processes = pool.processes
        self._deaths_before, self._retries_before = pool.deaths, pool.retries
        self._busy_before_ns = pool.busy_ns

    def put(self, query: Query | None) -> None:
        """Take the next query; None is the end."""
        with self._lock:
            self._waiting.append(query)
            self._order_waiting()

    def release(self, slot: Slot) -> None:
        """Take back the slot of a query that is finished."""
        with self._lock:
            self._free_slots.append(slot)
            self._order_waiting()

    def is_filled(self) -> bool:
        """Return whether `next_filled` returns at once."""
        if not self._next:
            try:
                self._next.append(self._ordered.get_nowait())
            except queue.Empty:
                return False
        if self._next[0] is None:
            return True
        _, preparation = self._next[0]
        if isinstance(preparation, Preparation):
            return not preparation.ready.locked()
        return self._pool.is_prepared(preparation)

    def next_filled(self) -> Query | None:
        """Wait for the next query's samples; None at the end, or when abandoned."""
        ordered = self._next.pop() if self._next else self._ordered.get()
        if ordered is None or self._is_abandoned:
            return None
        query, preparation = ordered
        if isinstance(preparation, Preparation):
            while not self._is_abandoned:
                if preparation.ready.acquire(timeout=POLL_S):
                    return query
            return None
        if not self._pool.wait(preparation, lambda: self._is_abandoned):
            return None
        query.unusable.update(preparation.faults())
        return query

    def record(self, query: Query) -> None:
        """Keep the stamps of a query's preparation; their spans are recorded by `close`.

        Making the 160 spans of 32 samples takes the interpreter from the thread that predicts for
        half a millisecond. Of more than `MOST_KEPT_BYTES` they are recorded at once.
        """
        if query.payload is not None or query.slot is None or not self._stages.traces_steps:
            return
        memory = self._pool.slot(query.slot.number)
        prepared = PreparedSteps.of(query, memory.stamps, memory.threads)
        self._kept.append(prepared)
        self._kept_bytes += prepared.stamps.nbytes
        if self._kept_bytes > MOST_KEPT_BYTES:
            self._record_kept()

    def abandon(self) -> None:
        """End the loops without filling further slots."""
        with self._lock:
            self._is_abandoned = True
            for line in (self._ordered, self._own_samples):
                line.put(None)

    def close(self) -> None:
        """Give up what is still prepared, record spans, and count the processes that ended.

        Called once all threads have ended.
        """
        if self._is_abandoned:
            self._pool.cancel()
        self._record_kept()
        prepared_by = self._stages.prepared_by
        prepared_by.deaths += self._pool.deaths - self._deaths_before
        prepared_by.retries += self._pool.retries - self._retries_before
        prepared_by.busy_ns += self._pool.busy_ns - self._busy_before_ns

    def _record_kept(self) -> None:
        to_record, self._kept, self._kept_bytes = self._kept, [], 0
        for prepared in to_record:
            self._stages.record_prepared(prepared)

    def _order_waiting(self) -> None:
        """Order the samples of as many queries as slots are free; called with the lock held."""
        while self._waiting and not self._is_abandoned:
            if self._waiting[0] is None:
                self._ordered.put(None)
                self._own_samples.put(None)
                return
            if not self._free_slots:
                return
            query, slot = self._waiting.popleft(), self._free_slots.popleft()
            assert query is not None
            self._stages.begin(query, slot)
            if query.payload is None:
                self._ordered.put((query, self._pool.begin(slot.number, query.samples)))
            else:
                preparation = Preparation(query, len(query.samples))
                self._ordered.put((query, preparation))
                self._own_samples.put(preparation)

    def _fill_loop(self) -> None:
        """Prepare the samples that queries brought."""
        while (preparation := self._own_samples.get()) is not None:
            try:
                if not self._is_abandoned:
                    self._stages.fill(preparation.query, range(preparation.remaining))
            finally:
                preparation.ready.release()
