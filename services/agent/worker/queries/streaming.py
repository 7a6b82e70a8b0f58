"""Takes queries through the stages: inline when one is in flight, else on threads.

One thread predicts, another one finishes what takes long; processes prepare, or threads where there
are none (`filling`).
Batches are predicted and finished in the order they came. The queues between threads are bounded.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from mlscope.tracing.clock import now_ns
from services.agent.errors import PredictFailed
from services.agent.machine.cores import kept_on
from services.agent.worker.preparation.finishing import FinishingProcess
from services.agent.worker.preparation.shares import is_quick_finish
from services.agent.worker.queries.filling import Filling, ThreadFilling
from services.agent.worker.queries.issuing import Check, ClosedLoop
from services.agent.worker.queries.pool_filling import PoolFilling
from services.agent.worker.queries.predict_calls import BeginCall, BegunCall
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.recorder import RunRecorder

OVERLAPPED = 2
"""Calls under way at a time: one is computed, while the next one's inputs are copied."""
_POLL_S = 0.05
_MOST_WORKERS = 16

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
    with kept_on(stages.predicting_cores):
        for query in queries:
            stages.prepare(query, slot)
            stages.predict(query)
            stages.finish(query)
            on_finished(query)
            recorder.flush_due(query.ended_ns)


class Unbounded:
    """Lets every query in: inline and open loops need no limit."""

    def enter(self) -> None:
        """Return at once."""


def run_streaming(
    queries: Iterable[Query] | ClosedLoop,
    stages: Stages,
    slots: list[Slot],
    recorder: RunRecorder,
    on_finished: OnFinished,
    check: Check,
) -> None:
    """Take the `queries` through the `stages` on threads.

    This thread issues them; those of a closed loop are issued by the thread that finishes the ones
    before, as another would have to win the interpreter first.
    Returns when the last one is finished. Raises what a stage raises, and what `check` raises while
    the last ones are waited for; then waiting queries are dropped. Prepared batches are limited by
    the `slots`; queries that are not yet prepared wait as indices. `on_finished` is called with
    each finished query, and the `recorder` flushes its rows when they are due.
    """
    filling = _filling(stages, slots)
    stream = _Stream(stages, filling, recorder, on_finished)
    try:
        if isinstance(queries, ClosedLoop):
            stream.issue_all(queries)
        else:
            for query in queries:
                stream.put(query)
                stream.raise_failure()
            stream.put(None)
        stream.drain(check)
    except BaseException:
        stream.abandon()
        raise
    finally:
        filling.close()


def _filling(stages: Stages, slots: list[Slot]) -> Filling:
    """Return what fills the slots: the processes of the stages' pool, where there is one."""
    pool = stages.pool
    started = None if pool is None else pool.started
    if started is not None and started.processes:
        return PoolFilling(stages, slots, started)
    if started is not None:
        stages.prepared_by.refusal = started.last_ending
    elif pool is not None:
        stages.prepared_by.refusal = pool.refusal
    else:
        stages.prepared_by.refusal = stages.pool_refusal
    return ThreadFilling(stages, slots)


def workers_for(steps: int, batch_size: int, cores: int, predicting: int) -> int:
    """Return how many threads prepare a batch with this many `steps` for each sample.

    They get the `cores` that the framework's `predicting` threads leave, and half of all where the
    framework takes more, because it is idle between batches. At most one for each sample of the
    `batch_size`; one where there are no steps.
    """
    free = max(cores - predicting, cores // 2, 1)
    return min(free, batch_size, _MOST_WORKERS) if steps else 1


class _Stream:
    def __init__(
        self, stages: Stages, filling: Filling, recorder: RunRecorder, on_finished: OnFinished
    ) -> None:
        self._stages, self._recorder, self._on_finished = stages, recorder, on_finished
        self._filling = filling
        self.put = filling.put
        #: the process that post-processes what takes long; None: a thread of this one
        self._finishing = None if stages.pool is None else stages.pool.finishing
        if self._finishing is not None:
            self._finishing.begin_block()
        self._predicted: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        #: whether this process finished the last query quickly; none is known to be quick at first
        self._is_quick = False
        #: queries that the predicting thread handed over to be finished, and those that are
        self._handed_over = self._finished = 0
        #: of a closed loop: the queries that are not issued yet
        self._loop_queries: Iterator[Query] | None = None
        self._issue_lock = threading.Lock()
        self._failure: BaseException | None = None
        self._is_abandoned = False
        loops = (*filling.loops, self._predict_loop, self._finish_loop)
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

    def issue_all(self, loop: ClosedLoop) -> None:
        """Issue the first queries of a loop; each of the others follows one that has ended."""
        self._loop_queries = loop.queries
        for _ in range(loop.in_flight):
            self._issue_next()

    def drain(self, check: Check) -> None:
        """Wait until every query is finished."""
        while self._threads[-1].is_alive():
            self._threads[-1].join(_POLL_S)
            check()
        self._join()
        self.raise_failure()

    def abandon(self) -> None:
        """End the threads without finishing the queries that wait."""
        self._wake_threads()
        self._join()

    def _issue_next(self) -> None:
        if self._loop_queries is not None:
            with self._issue_lock:
                self.put(next(self._loop_queries, None))

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _wake_threads(self) -> None:
        self._is_abandoned = True
        self._filling.abandon()
        if self._finishing is not None:
            self._finishing.give_up()
        self._predicted.put(None)

    def _run_loop(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that issues
            self._failure = error
            self._wake_threads()

    def _predict_loop(self) -> None:
        filling, begin = self._filling, self._stages.begin_call
        with kept_on(self._stages.predicting_cores):
            if begin is not None and isinstance(filling, PoolFilling):
                self._predict_overlapped(filling, begin)
            else:
                while (query := filling.next_filled()) is not None:
                    self._stages.predict(query)
                    self._hand_on(query)
        self._predicted.put(None)

    def _predict_overlapped(self, filling: PoolFilling, begin: BeginCall) -> None:
        """Begin each call before the one before it has ended, if its samples are there by then.

        Else the one before ends first: its answer must not wait for samples of another query.
        """
        begun: deque[tuple[Query, BegunCall | None]] = deque()

        def end_oldest() -> None:
            query, call = begun.popleft()
            self._stages.end_predict(query, call)
            if not begun:
                self._stages.end_calls()
            self._hand_on(query)

        try:
            while True:
                if begun and not filling.is_filled():
                    end_oldest()
                query = filling.next_filled()
                if query is None:
                    break
                begun.append((query, self._stages.begin_predict(query, begin)))
                if len(begun) >= OVERLAPPED:
                    end_oldest()
            while begun:
                end_oldest()
        finally:
            # The next run must not begin on a busy device.
            for _, call in begun:
                with contextlib.suppress(PredictFailed):
                    if call is not None and call[1] is not None:
                        call[1].wait()
            self._stages.end_calls()

    def _hand_on(self, query: Query) -> None:
        """Finish a query that was predicted, or have it finished."""
        # To hand it over, the other thread has to win the interpreter from this one. All queries
        # before must be finished, or the order would be lost.
        if self._is_quick and self._finished == self._handed_over:
            self._finish(query)
        else:
            self._handed_over += 1
            self._predicted.put(query)

    def _finish_loop(self) -> None:
        while (query := self._predicted.get()) is not None and not self._is_abandoned:
            self._finish(query, self._finishing)
            self._finished += 1

    def _finish(self, query: Query, apart: FinishingProcess | None = None) -> None:
        # Waiting for the interpreter or for another process is no work.
        began_ns = time.thread_time_ns()
        self._filling.record(query)
        self._stages.finish(query, apart)
        self._is_quick = apart is None and is_quick_finish(time.thread_time_ns() - began_ns)
        assert query.slot is not None
        self._filling.release(query.slot)
        self._on_finished(query)
        self._issue_next()
        self._recorder.flush_due(now_ns())
