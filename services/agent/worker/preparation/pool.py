"""The pool: orders of a batch go to its processes, which are watched and replaced (I/O).

An order costs the worker a message of 32 bytes, and a batch wakes it once: the kernel counts the
processes that are done. One thread begins batches, another one waits for them.
"""

import contextlib
import itertools
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Self

from mlscope.tracing.clock import now_ns
from services.agent.errors import ProcessesUnavailable
from services.agent.machine.cores import ANYWHERE
from services.agent.worker.answers.sample_failure import failure_of
from services.agent.worker.preparation.arena import Arena, SlotMemory
from services.agent.worker.preparation.batch import Batch, Order, PreparingProcess
from services.agent.worker.preparation.finishing import FinishingProcess
from services.agent.worker.preparation.fork_requests import ORDER, PREPARE
from services.agent.worker.preparation.layout import ArenaLayout
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.processes import ForkedProcess, PreparingProcesses
from services.agent.worker.preparation.shares import shares

_POLL_S, _CANCEL_S = 0.05, 1.0
_MOST_TRIES = 2
_MOST_DEATHS = 32
"""Processes that are replaced in one block of a run; then the dataset's decoder is hopeless."""
_WAKE_BYTES = 4096


class PreparationPool:
    """Processes that prepare the samples of a session's streamed runs, and their slots."""

    def __init__(self, order: PreparationOrder, sample_timeout_s: float) -> None:
        """Start the process that others are forked from, for an `order`; nothing is waited for.

        A process that takes longer than `sample_timeout_s` for a sample is ended. Raises
        ProcessesUnavailable.
        """
        self._order, self._timeout_ns = order, int(sample_timeout_s * 1e9)
        self._server = PreparingProcesses.start(order)
        #: held for orders, and for moments only
        self._lock = threading.Lock()
        #: held while the server is asked, which may take seconds; taken before the other
        self._server_lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._processes: list[PreparingProcess] = []
        self._names: Sequence[str] = ()
        self._samples: Sequence[object] = ()
        self._cores: frozenset[int] = ANYWHERE
        #: both ends of each slot's wake-ups
        self._wakes: list[tuple[socket.socket, socket.socket]] = []
        self._arena: Arena | None = None
        self._arena_fd = -1
        self._last_ending, self._is_closed = "", False
        self._deaths_before = 0
        #: processes that ended before they were told to
        self.deaths = 0
        #: samples that were given to another process
        self.retries = 0

    def map(
        self,
        layout: ArenaLayout,
        names: Sequence[str],
        samples: Sequence[object],
        cores: frozenset[int] = ANYWHERE,
    ) -> None:
        """Make the arena of a `layout`. Raises ProcessesUnavailable.

        `names` are those of the inputs in samples; `samples` are the dataset's, for their names.
        The processes run on these `cores`.
        """
        self._server.await_ready()
        try:
            self._arena, self._arena_fd = Arena.create(layout)
        except (OSError, ValueError, OverflowError) as error:
            raise ProcessesUnavailable(f"no shared memory: {error}") from error
        self._names, self._samples, self._cores = names, samples, cores
        self._wakes = [socket.socketpair() for _ in range(layout.slots)]
        timeval = struct.pack("@ll", int(_POLL_S), int(_POLL_S % 1 * 1e6))
        for wake, _ in self._wakes:
            wake.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._map_arena()

    def start(self, count: int) -> None:
        """Start `count` processes, at most as many as the layout has. Raises ProcessesUnavailable.

        Call it once, after `map`.
        """
        for number in range(count):
            process = PreparingProcess(number, self._server.fork(number), 0)
            self._processes.append(process)

    def finishing_process(self) -> FinishingProcess:
        """Return a process that post-processes, once `start` was called.

        Raises ProcessesUnavailable.
        """
        return FinishingProcess(self._fork_finishing, self._end_finishing, self._timeout_ns * 1e-9)

    def begin_block(self) -> None:
        """Let as many processes be replaced again: another run has other queries."""
        self._deaths_before = self.deaths

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return len(self._processes)

    @property
    def busy_ns(self) -> int:
        """How long its processes have carried out orders so far, summed."""
        return sum(self._mapped.busy_ns)

    @property
    def last_ending(self) -> str:
        """How the last process that was replaced had ended, or why it was not replaced."""
        return self._last_ending

    @property
    def pids(self) -> Sequence[int]:
        """The ids of the processes."""
        return [process.process.pid for process in self._processes]

    def slot(self, number: int) -> SlotMemory:
        """Return the memory of the slot with a number."""
        return self._mapped.slots[number]

    def begin(self, slot: int, samples: Sequence[int]) -> Batch:
        """Order `samples` of the dataset into the slot with a number, which is free."""
        batch = Batch.of(slot, self.slot(slot), samples)
        with contextlib.suppress(BlockingIOError):
            self._wakes[slot][0].recv(_WAKE_BYTES, socket.MSG_DONTWAIT)
        with self._lock:
            self._give(batch, range(batch.count))
        return batch

    def wait(self, batch: Batch, is_over: Callable[[], bool]) -> bool:
        """Wait until a batch is prepared; return False where it `is_over` before."""
        wake = self._wakes[batch.slot][0]
        while missing := self._missing(batch):
            try:
                wake.recv(missing, socket.MSG_WAITALL)
            except BlockingIOError:
                if is_over():
                    return False
                self._mend()
        return True

    def is_prepared(self, batch: Batch) -> bool:
        """Return whether `wait` returns at once for a batch."""
        return not self._missing(batch)

    def cancel(self) -> None:
        """Give up all orders: no process writes to a slot afterwards."""
        with self._server_lock:
            with self._lock:
                self._mapped.cancelled[0] = next(self._numbers)
                deadline_ns = now_ns() + int(_CANCEL_S * 1e9)
                while self._busy() and now_ns() < deadline_ns:
                    threading.Event().wait(_POLL_S / 10)
                held_up = self._busy()
            for process in held_up:
                _, forked = self._forked_again(process)
                with self._lock:
                    self._exchange(process, forked)

    def close(self) -> None:
        """End all processes. The slots stay as long as someone uses them."""
        if self._is_closed:
            return
        self._is_closed = True
        self._server.close()
        for process in self._processes:
            process.process.orders.close()
        for pair in self._wakes:
            for end in pair:
                end.close()
        if self._arena_fd >= 0:
            os.close(self._arena_fd)
        self._processes, self._wakes = [], []
        self._arena, self._arena_fd = None, -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _mapped(self) -> Arena:
        assert self._arena is not None
        return self._arena

    def _map_arena(self) -> None:
        wakes = [child_end for _, child_end in self._wakes]
        self._server.map(self._arena_fd, self._mapped.layout, self._names, wakes)
        if self._cores:
            self._server.keep_on(self._cores)

    def _missing(self, batch: Batch) -> int:
        """Return how many processes have not done their last order of a batch."""
        last_done = self._mapped.done
        last_orders = tuple(batch.last_orders.items())
        return sum(last_done[process] < number for process, number in last_orders)

    def _busy(self) -> list[PreparingProcess]:
        for process in self._processes:
            process.forget_done(self._mapped.done[process.number])
        return [process for process in self._processes if process.orders]

    def _give(self, batch: Batch, positions: range) -> None:
        """Order the samples at some positions of a batch, so that all processes end together."""
        if not self._processes:
            self._fail(batch, positions, self._last_ending)
            return
        prepared, first = self._mapped.prepared, positions.start
        backlogs = [process.ordered - prepared[process.number] for process in self._processes]
        counts = shares(backlogs, len(positions))
        for process, count in zip(self._processes, counts, strict=True):
            if count:
                order = Order(next(self._numbers), batch, first, count)
                process.forget_done(self._mapped.done[process.number])
                process.orders.append(order)
                process.ordered += count
                batch.last_orders[process.number] = order.number
                # One that has ended is seen by who waits for the batch.
                with contextlib.suppress(OSError):
                    process.process.orders.send(ORDER.pack(order.number, batch.slot, first, count))
                first += count

    def _mend(self) -> None:
        """Replace processes that have ended, or that a sample holds up, and order again.

        Batches may begin meanwhile: what a process is ordered until it is replaced is ordered again
        too.
        """
        with self._server_lock:
            with self._lock:
                busy = self._busy()
            for process in busy:
                began_ns, reason = self._mapped.began_ns[process.number], ""
                if began_ns and now_ns() - began_ns > self._timeout_ns:
                    reason = f"took longer than {self._timeout_ns * 1e-9:g} s"
                elif not process.process.has_ended:
                    continue
                ending, forked = self._forked_again(process)
                with self._lock:
                    self._exchange(process, forked)
                    self._order_again(process.number, process.orders, reason or ending)

    def _forked_again(self, process: PreparingProcess) -> tuple[str, ForkedProcess | None]:
        """End a process; return how it ended, and one in its place, None where there is none."""
        self.deaths += 1
        ending = self._last_ending = self._server.end(process.process)
        self._mapped.began_ns[process.number] = 0
        try:
            if self.deaths - self._deaths_before > _MOST_DEATHS:
                raise ProcessesUnavailable(
                    f"{_MOST_DEATHS} processes have ended, the last: {ending}"
                )
            return ending, self._forked(process.number)
        except ProcessesUnavailable as error:
            self._last_ending = error.reason
            return ending, None

    def _exchange(self, process: PreparingProcess, forked: ForkedProcess | None) -> None:
        """Give further orders to the process that was `forked` in place of one that ended."""
        self._processes.remove(process)
        if forked is not None:
            prepared = self._mapped.prepared[process.number]
            self._processes.append(PreparingProcess(process.number, forked, prepared))

    def _order_again(self, number: int, orders: Sequence[Order], reason: str) -> None:
        """Order what the process with a `number` left undone of its `orders`.

        The first sample left may be why it ended: it is tried once more, and fails for the
        `reason` where its process ends again.
        """
        is_cause = True
        for order in orders:
            batch, pending = order.batch, order.pending_positions
            if batch.last_orders.get(number) == order.number:
                del batch.last_orders[number]
            if not pending:
                continue
            if is_cause:
                self._try_again(batch, pending.start, reason)
                pending, is_cause = pending[1:], False
            if pending:
                self._give(batch, pending)

    def _try_again(self, batch: Batch, position: int, reason: str) -> None:
        tries = batch.tries[position] = batch.tries.get(position, 0) + 1
        positions = range(position, position + 1)
        if tries >= _MOST_TRIES:
            self._fail(batch, positions, reason)
            return
        self.retries += 1
        self._give(batch, positions)

    def _fail(self, batch: Batch, positions: range, reason: str) -> None:
        for position in positions:
            sample = int(batch.memory.samples[position])
            failure = failure_of(self._samples, sample, PREPARE, reason)
            batch.memory.set_reason(position, failure)
            batch.memory.stamps[position] = 0

    def _fork_finishing(self) -> ForkedProcess:
        with self._server_lock:
            return self._server.fork_finishing()

    def _end_finishing(self, process: ForkedProcess) -> str:
        with self._server_lock:
            return self._server.end(process)

    def _forked(self, number: int) -> ForkedProcess:
        """Fork a process with a `number`, by a new server where the last one has ended."""
        try:
            return self._server.fork(number)
        except ProcessesUnavailable:
            self._server.close()
            self._server = PreparingProcesses.start(self._order)
            self._server.await_ready()
            self._map_arena()
            return self._server.fork(number)
