"""Fills slots with the samples of queries: on threads of the worker, or in processes of their own.

Queries are prepared in the order in which they came. The batches on their way are limited by the
slots; queries that are not yet prepared wait as indices.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.agent.worker.preparation.batch import Batch
from services.agent.worker.preparation.pool import PreparationPool
from services.agent.worker.queries.prepared_spans import PreparedSteps
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages

_POLL_S = 0.05
MOST_KEPT_BYTES = 1 << 20
"""Stamps of about 13,000 samples of five steps, more than most blocks have."""
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


@dataclass(slots=True)
class _Preparation:
    """A query whose samples are being prepared; `ready` is held until all of them are."""

    query: Query
    #: samples that are not prepared yet
    remaining: int
    ready: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ready.acquire()


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
        self._preparations: queue.SimpleQueue[_Preparation | None] = queue.SimpleQueue()
        #: positions in batches that no thread prepares yet
        self._shares: deque[tuple[_Preparation, range]] = deque()
        self._begin_lock, self._count_lock = threading.Lock(), threading.Lock()
        self._is_abandoned = False
        self.put, self.release = self._waiting.put, self._free_slots.put

    def next_filled(self) -> Query | None:
        """Help until the next query's samples are prepared; None at the end, or when abandoned."""
        preparation = self._preparations.get()
        while preparation is not None and not self._is_abandoned:
            if preparation.ready.acquire(blocking=False):
                return preparation.query
            if not self._prepare_share() and preparation.ready.acquire(timeout=_POLL_S):
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
            preparation = _Preparation(query, count)
            shares = (self._stages.workers + 1) * _SHARES_PER_THREAD
            size = count if self._stages.fills_whole_batches else max(1, count // shares)
            positions = range(count)
            self._shares.extend(
                (preparation, positions[first : first + size]) for first in positions[::size]
            )
            self._preparations.put(preparation)
            return True


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
        self._ordered: queue.SimpleQueue[tuple[Query, Batch | _Preparation] | None] = (
            queue.SimpleQueue()
        )
        #: the head of that line, once `is_filled` has looked at it
        self._next: list[tuple[Query, Batch | _Preparation] | None] = []
        self._own_samples: queue.SimpleQueue[_Preparation | None] = queue.SimpleQueue()
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
        if isinstance(preparation, _Preparation):
            return not preparation.ready.locked()
        return self._pool.is_prepared(preparation)

    def next_filled(self) -> Query | None:
        """Wait for the next query's samples; None at the end, or when abandoned."""
        ordered = self._next.pop() if self._next else self._ordered.get()
        if ordered is None or self._is_abandoned:
            return None
        query, preparation = ordered
        if isinstance(preparation, _Preparation):
            while not self._is_abandoned:
                if preparation.ready.acquire(timeout=_POLL_S):
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
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for prepared in kept:
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
                preparation = _Preparation(query, len(query.samples))
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
