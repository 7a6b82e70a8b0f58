"""Takes queries through the stages: inline when one is in flight, else on threads.

One thread predicts, one finishes, and workers prepare: they share each batch's samples, because
decoding and resizing in Pillow release the interpreter, as the framework's kernels do. While the
predicting thread waits for a batch it prepares some of its samples. Batches are predicted and
finished in the order they came. The queues between threads are bounded.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mlscope.tracing.clock import now_ns
from services.agent.worker.queries.issuing import Check
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.recorder import RunRecorder

_POLL_S = 0.05
_SHARES_PER_THREAD = 4
"""Parts of a batch for each thread: few, yet the last thread to finish is not waited for long."""
_MOST_WORKERS = 16
SLOTS = 3
"""Batches on their way at a time: one being prepared, one predicted, one finished."""

OnFinished = Callable[[Query], None]


def run_inline(
    queries: Iterable[Query],
    stages: Stages,
    slot: Slot,
    recorder: RunRecorder,
    on_finished: OnFinished,
) -> None:
    """Take each of the `queries` through all `stages`, in one `slot`, before the next begins.

    `on_finished` is called with each, and the `recorder` flushes its rows when they are due.
    """
    for query in queries:
        stages.prepare(query, slot)
        stages.predict(query)
        stages.finish(query)
        on_finished(query)
        recorder.flush_due(query.ended_ns)


class Window:
    """Lets at most `limit` queries be in flight."""

    def __init__(self, limit: int, check: Check) -> None:
        self._free = threading.Semaphore(limit)
        self._check = check

    def enter(self) -> None:
        """Wait until a query leaves; raises what `check` raises meanwhile."""
        while not self._free.acquire(timeout=_POLL_S):
            self._check()

    def leave(self) -> None:
        """Count a query as finished."""
        self._free.release()


class Unbounded:
    """Lets every query in: inline and open loops need no limit."""

    def enter(self) -> None:
        """Return at once."""


def run_streaming(
    queries: Iterable[Query],
    stages: Stages,
    slots: list[Slot],
    recorder: RunRecorder,
    on_finished: OnFinished,
    check: Check,
) -> None:
    """Take the `queries` through the `stages` on threads; this thread issues them.

    Returns when the last one is finished. Raises what a stage raises, and what `check` raises while
    the last ones are waited for; then waiting queries are dropped. Prepared batches are limited by
    the `slots`; queries that are not yet prepared wait as indices. `on_finished` is called with
    each finished query, and the `recorder` flushes its rows when they are due.
    """
    stream = _Stream(stages, slots, recorder, on_finished)
    try:
        for query in queries:
            stream.waiting.put(query)
            stream.raise_failure()
        stream.drain(check)
    except BaseException:
        stream.abandon()
        raise


def workers_for(steps: int, batch_size: int, cores: int, predicting: int) -> int:
    """Return how many threads prepare a batch with this many `steps` for each sample.

    They get the `cores` that the framework's `predicting` threads leave, and half of all where the
    framework takes more, because it is idle between batches. At most one for each sample of the
    `batch_size`; one where there are no steps.
    """
    free = max(cores - predicting, cores // 2, 1)
    return min(free, batch_size, _MOST_WORKERS) if steps else 1


@dataclass(slots=True)
class _Preparation:
    """A query whose samples are being prepared; `ready` is held until all of them are."""

    query: Query
    #: samples that are not prepared yet
    remaining: int
    ready: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ready.acquire()


class _Stream:
    def __init__(
        self, stages: Stages, slots: list[Slot], recorder: RunRecorder, on_finished: OnFinished
    ) -> None:
        self._stages, self._recorder, self._on_finished = stages, recorder, on_finished
        self.waiting: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        self._free_slots: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        for slot in slots:
            self._free_slots.put(slot)
        #: in order, as their preparation begins: limited by the slots
        self._preparations: queue.SimpleQueue[_Preparation | None] = queue.SimpleQueue()
        self._predicted: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        #: positions in batches that no thread prepares yet
        self._shares: deque[tuple[_Preparation, range]] = deque()
        self._begin_lock, self._count_lock = threading.Lock(), threading.Lock()
        self._failure: BaseException | None = None
        self._is_abandoned = False
        loops = (*[self._prepare_loop] * stages.workers, self._predict_loop, self._finish_loop)
        self._threads = [
            threading.Thread(target=self._run_loop, args=(loop,), name=loop.__name__)
            for loop in loops
        ]
        for thread in self._threads:
            thread.start()

    def raise_failure(self) -> None:
        """Raise the error that ended a stage."""
        if self._failure is not None:
            raise self._failure

    def drain(self, check: Check) -> None:
        """Wait until every query is finished."""
        self.waiting.put(None)
        while self._threads[-1].is_alive():
            self._threads[-1].join(_POLL_S)
            check()
        for thread in self._threads:
            thread.join()
        self.raise_failure()

    def abandon(self) -> None:
        """End the threads without finishing the queries that wait."""
        self._is_abandoned = True
        self._wake_threads()
        for thread in self._threads:
            thread.join()

    def _wake_threads(self) -> None:
        for line in (self.waiting, self._preparations, self._predicted, self._free_slots):
            line.put(None)

    def _run_loop(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that issues
            self._failure = error
            self._is_abandoned = True
            self._wake_threads()

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
            query = self.waiting.get()
            slot = self._free_slots.get() if query is not None and not self._is_abandoned else None
            if query is None or slot is None:
                # The other workers must see the end as well.
                self.waiting.put(None)
                self._preparations.put(None)
                return False
            self._stages.begin(query, slot)
            count = len(query.samples)
            preparation = _Preparation(query, count)
            size = max(1, count // ((self._stages.workers + 1) * _SHARES_PER_THREAD))
            positions = range(count)
            self._shares.extend(
                (preparation, positions[first : first + size]) for first in positions[::size]
            )
            self._preparations.put(preparation)
            return True

    def _predict_loop(self) -> None:
        while (preparation := self._preparations.get()) is not None:
            if not self._help_until_ready(preparation):
                break
            self._stages.predict(preparation.query)
            self._predicted.put(preparation.query)
        self._predicted.put(None)

    def _help_until_ready(self, preparation: _Preparation) -> bool:
        """Help until all samples are prepared; False when the run is abandoned."""
        while not self._is_abandoned:
            if preparation.ready.acquire(blocking=False):
                return True
            if not self._prepare_share() and preparation.ready.acquire(timeout=_POLL_S):
                return True
        return False

    def _finish_loop(self) -> None:
        while (query := self._predicted.get()) is not None and not self._is_abandoned:
            self._stages.finish(query)
            self._free_slots.put(query.slot)
            self._on_finished(query)
            self._recorder.flush_due(now_ns())
