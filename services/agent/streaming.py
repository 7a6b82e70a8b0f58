"""Queries through the stages: inline when one is in flight, else on threads with bounded queues.

One thread predicts, one finishes, and workers prepare: they share each batch's samples, because
decoding and resizing in Pillow leave the interpreter to others, as the framework's kernels do. A
predicting thread that would wait for a batch prepares some of it. Batches are predicted and
finished in the order they came.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mlscope.tracing.clock import now_ns
from services.agent.issuing import Check
from services.agent.query import Query, Slot
from services.agent.recorder import Recorder
from services.agent.stages import Stages

_LOOK_S = 0.05
_SHARES = 4
"""Parts of a batch for each thread: the last one to finish is not waited for long."""
_MOST_WORKERS = 16
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
    """Take queries through the stages on threads; this one issues them.

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


def workers_for(steps: int, batch_size: int, cores: int, predicting: int) -> int:
    """Return how many threads prepare a batch beside the `predicting` ones of the framework.

    They have the other cores, and half of all where the framework takes more: it is idle between
    batches.
    """
    free = max(cores - predicting, cores // 2, 1)
    return min(free, batch_size, _MOST_WORKERS) if steps else 1


@dataclass(slots=True)
class _Filling:
    """A query whose samples are being prepared; `ready` is held until all of them are."""

    query: Query
    #: samples that are not prepared yet
    left: int
    ready: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ready.acquire()


class _Stream:
    def __init__(self, stages: Stages, slots: list[Slot], recorder: Recorder, done: Done) -> None:
        self._stages, self._recorder, self._done = stages, recorder, done
        self.waiting: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        for slot in slots:
            self._free.put(slot)
        #: in order, as they begin to be prepared: bounded by the slots
        self._filled: queue.SimpleQueue[_Filling | None] = queue.SimpleQueue()
        self._predicted: queue.SimpleQueue[Query | None] = queue.SimpleQueue()
        #: places in batches that nobody prepares yet
        self._shares: deque[tuple[_Filling, range]] = deque()
        self._taking, self._counting = threading.Lock(), threading.Lock()
        self._failure: BaseException | None = None
        self._given_up = False
        work = (*[self._preparing] * stages.workers, self._predicting, self._finishing)
        self._threads = [
            threading.Thread(target=self._guarded, args=(stage,), name=stage.__name__)
            for stage in work
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
        for thread in self._threads:
            thread.join()
        self.raise_failure()

    def abandon(self) -> None:
        """End the threads without finishing what waits."""
        self._given_up = True
        self._wake()
        for thread in self._threads:
            thread.join()

    def _wake(self) -> None:
        for line in (self.waiting, self._filled, self._predicted, self._free):
            line.put(None)

    def _guarded(self, stage: Callable[[], None]) -> None:
        try:
            stage()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that issues
            self._failure = error
            self._given_up = True
            self._wake()

    def _preparing(self) -> None:
        while not self._given_up and (self._prepare_share() or self._begin_next()):
            pass

    def _prepare_share(self) -> bool:
        """Prepare some samples of a batch that was begun; False when none are left."""
        try:
            filling, positions = self._shares.popleft()
        except IndexError:
            return False
        self._stages.fill(filling.query, positions)
        with self._counting:
            filling.left -= len(positions)
            is_whole = filling.left == 0
        if is_whole:
            filling.ready.release()
        return True

    def _begin_next(self) -> bool:
        """Wait for a query and for a slot, unless another worker just did; False at the end."""
        with self._taking:
            if self._shares:
                return True
            query = self.waiting.get()
            slot = self._free.get() if query is not None and not self._given_up else None
            if query is None or slot is None:
                # The other workers are to see the end as well.
                self.waiting.put(None)
                self._filled.put(None)
                return False
            self._stages.begin(query, slot)
            count = len(query.samples)
            filling = _Filling(query, count)
            size = max(1, count // ((self._stages.workers + 1) * _SHARES))
            every = range(count)
            self._shares.extend((filling, every[at : at + size]) for at in every[::size])
            self._filled.put(filling)
            return True

    def _predicting(self) -> None:
        while (filling := self._filled.get()) is not None and self._is_ready(filling):
            self._stages.predict(filling.query)
            self._predicted.put(filling.query)
        self._predicted.put(None)

    def _is_ready(self, filling: _Filling) -> bool:
        """Help until all samples are prepared; False when the run is given up."""
        while not self._given_up:
            if filling.ready.acquire(blocking=False):
                return True
            if not self._prepare_share() and filling.ready.acquire(timeout=_LOOK_S):
                return True
        return False

    def _finishing(self) -> None:
        while (query := self._predicted.get()) is not None and not self._given_up:
            self._stages.finish(query)
            self._free.put(query.slot)
            self._done(query)
            self._recorder.flush_due(now_ns())
