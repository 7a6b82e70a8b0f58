"""Queries through the stages: inline when one is in flight, else on threads with bounded queues.

Three threads, one a stage, because CPython runs one thread's Python at a time: more would hand
the interpreter around without working any sooner. What overlaps is what leaves it: decoding and
resizing in Pillow, the framework's kernels, waiting. Each stage keeps the order it is given.
"""

import queue
import threading
from collections.abc import Callable, Iterable

from mlscope.tracing.clock import now_ns
from services.agent.issuing import Check
from services.agent.recorder import Recorder
from services.agent.stages import Query, Slot, Stages

_LOOK_S = 0.05
SLOTS = 3
"""Batches on their way at a time: one being prepared, one predicted, one finished."""

Done = Callable[[Query], None]


def run_inline(
    queries: Iterable[Query], stages: Stages, slot: Slot, recorder: Recorder, done: Done
) -> None:
    """Take each query through every stage before the next begins."""
    for query in queries:
        stages.prepare(query, slot)
        stages.predict(query)
        stages.finish(query)
        done(query)
        recorder.flush_due(query.ended_ns)


class Window:
    """Lets at most `most` queries be in flight."""

    def __init__(self, most: int, check: Check) -> None:
        self._free = threading.Semaphore(most)
        self._check = check

    def enter(self) -> None:
        """Wait for a query to leave; raises what `check` raises meanwhile."""
        while not self._free.acquire(timeout=_LOOK_S):
            self._check()

    def leave(self) -> None:
        """Say that a query is done."""
        self._free.release()


class Unbounded:
    """Lets every query in: the inline path and open loops need no bound."""

    def enter(self) -> None:
        """Let it in."""


def run_streaming(
    queries: Iterable[Query],
    stages: Stages,
    slots: list[Slot],
    recorder: Recorder,
    done: Done,
    check: Check,
) -> None:
    """Take queries through the stages on three threads; this one issues them.

    Returns when the last is finished. What a stage raises is raised here, and so is what `check`
    raises while the last ones are waited for; then what waits is left undone. Prepared batches
    are bounded by the slots; queries not yet prepared wait as what they are, indices.
    """
    stream = _Stream(stages, slots, recorder, done)
    try:
        for query in queries:
            stream.waiting.put(query)
            stream.raise_failure()
        stream.drain(check)
    except BaseException:
        stream.abandon()
        raise


class _Stream:
    def __init__(self, stages: Stages, slots: list[Slot], recorder: Recorder, done: Done) -> None:
        self._stages, self._recorder, self._done = stages, recorder, done
        self.waiting: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        for slot in slots:
            self._free.put(slot)
        self._prepared: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        self._predicted: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._given_up = False
        self._threads = [
            threading.Thread(target=self._guarded, args=(stage,), name=stage.__name__)
            for stage in (self._preparing, self._predicting, self._finishing)
        ]
        for thread in self._threads:
            thread.start()

    def raise_failure(self) -> None:
        """Raise what a stage died of."""
        if self._failure is not None:
            raise self._failure

    def drain(self, check: Check) -> None:
        """Wait until everything put is finished."""
        self.waiting.put(None)
        while self._threads[-1].is_alive():
            self._threads[-1].join(_LOOK_S)
            check()
        self.raise_failure()

    def abandon(self) -> None:
        """End the threads without finishing what waits."""
        self._given_up = True
        self._wake()
        for thread in self._threads:
            thread.join()

    def _wake(self) -> None:
        for line in (self.waiting, self._prepared, self._predicted, self._free):
            line.put(None)

    def _guarded(self, stage: Callable[[], None]) -> None:
        try:
            stage()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that issues
            self._failure = error
            self._given_up = True
            self._wake()

    def _preparing(self) -> None:
        while (query := self.waiting.get()) is not None and not self._given_up:
            slot = self._free.get()
            if slot is None:
                return
            self._stages.prepare(query, slot)
            self._prepared.put(query)
        self._prepared.put(None)

    def _predicting(self) -> None:
        while (query := self._prepared.get()) is not None and not self._given_up:
            self._stages.predict(query)
            self._predicted.put(query)
        self._predicted.put(None)

    def _finishing(self) -> None:
        while (query := self._predicted.get()) is not None and not self._given_up:
            self._stages.finish(query)
            self._free.put(query.slot)
            self._done(query)
            self._recorder.flush_due(now_ns())
