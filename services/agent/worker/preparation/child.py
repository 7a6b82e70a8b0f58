"""A preparing process: it takes orders, and puts samples into the slots of the arena."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlscope.tracing.clock import now_ns
from services.agent.steps import Operator
from services.agent.worker.answers.sample_failure import failure_of
from services.agent.worker.preparation.arena import PREPARED, Arena
from services.agent.worker.preparation.fork_requests import ORDER, PREPARE
from services.agent.worker.queries.sample_steps import SampleSteps


@dataclass(frozen=True, slots=True)
class SampleSource:
    """The samples of a dataset, and the steps before the model."""

    samples: Sequence[Any]
    steps: SampleSteps


class Preparer:
    """Carries out orders in the process with a `number`, with the samples of a `source`.

    They go into an `arena`. `wakes` has a socket for each slot, on which the worker waits for it.
    """

    def __init__(
        self, arena: Arena, number: int, source: SampleSource, wakes: Sequence[socket.socket]
    ) -> None:
        self._arena, self._number, self._source = arena, number, source
        self._wakes = wakes

    def work(self, orders: socket.socket) -> None:
        """Carry out the `orders` one by one until the worker closes them."""
        while body := orders.recv(ORDER.size):
            order_began_ns = now_ns()
            number, slot, first, count = ORDER.unpack(body)
            prepared = self._arena.prepared[self._number] + count
            for position in range(first, first + count):
                if number < self._arena.cancelled[0]:
                    break
                self._prepare(slot, position)
                self._arena.prepared[self._number] += 1
            self._arena.prepared[self._number] = prepared
            self._arena.began_ns[self._number] = 0
            self._arena.busy_ns[self._number] += now_ns() - order_began_ns
            self._arena.done[self._number] = number
            with contextlib.suppress(BlockingIOError):  # then enough others wake the worker
                self._wakes[slot].send(b"1", socket.MSG_DONTWAIT)

    def _prepare(self, slot: int, position: int) -> None:
        """Put one sample into its slot, with the stamps of its steps, or the reason why not."""
        memory = self._arena.slots[slot]
        stamps = [[0, 0] for _ in range(self._arena.layout.steps)]

        def apply(number: int, operator: Operator, arguments: tuple[Any, ...]) -> Any:
            stamps[number][0] = now_ns()
            try:
                return operator.apply(*arguments)
            finally:
                stamps[number][1] = now_ns()

        self._arena.began_ns[self._number] = now_ns()
        sample = int(memory.samples[position])
        read = partial(self._source.samples.__getitem__, sample)
        arrays = memory.arrays[: self._source.steps.inputs]
        try:
            fault = self._source.steps.prepare(read, arrays, position, apply)
        except Exception as error:  # noqa: BLE001  # a library's own: the process can go on
            fault = PREPARE, error
        memory.stamps[position] = stamps
        memory.threads[position] = threading.get_native_id()
        if fault is None:
            memory.states[position] = PREPARED
        else:
            memory.set_reason(position, failure_of(self._source.samples, sample, *fault))
