"""The pool of one session: begun before its model opens, started when a run streams its samples."""

import contextlib
from collections.abc import Sequence
from typing import Any

from services.agent.errors import ProcessesUnavailable
from services.agent.link.allowances import PreparationLimits
from services.agent.machine.cores import ANYWHERE
from services.agent.machine.noise import usable_core_numbers
from services.agent.worker.preparation.finishing import FinishingProcess
from services.agent.worker.preparation.layout import ArenaLayout, ArrayShape
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.pool import PreparationPool
from services.agent.worker.preparation.predicting import Predicting
from services.agent.worker.preparation.shares import (
    LEAST_SLOTS,
    is_quick_finish,
    needed_processes,
    processes_for,
    slots_for,
)
from services.agent.worker.queries.inputs import Inputs
from services.agent.worker.queries.query import Slot


class SessionPool:
    """A pool, or the reason why there is none: then threads prepare the samples."""

    def __init__(
        self, order: PreparationOrder, limits: PreparationLimits, cores: int, in_flight: int
    ) -> None:
        """Begin to open the dataset of an `order` in another process, within `limits`.

        There are `cores`, and at most `in_flight` queries at a time.
        """
        self._limits, self._cores, self._in_flight = limits, cores, in_flight
        self._most = self._planned = 0
        self._pool: PreparationPool | None = None
        #: the pool with its processes, once it is started
        self.started: PreparationPool | None = None
        #: the process that post-processes, once it is started; None where the worker does
        self.finishing: FinishingProcess | None = None
        self._finishes_apart = False
        #: why there are no processes
        self.refusal = ""
        try:
            self._pool = PreparationPool(order, limits.sample_timeout_s)
        except ProcessesUnavailable as error:
            self.refusal = error.reason

    def slots(
        self, inputs: Inputs, batch_size: int, steps: int, samples: Sequence[Any], place: Predicting
    ) -> list[Slot]:
        """Return the slots of a model's `inputs`, in shared memory where there is a pool.

        A batch has `batch_size` of the `samples`; each of them takes this many `steps`. The
        processes leave alone the cores of the `place` where the model is called.
        """
        predicting = place.threads
        limit = min(self._limits.processes, batch_size * self._in_flight)
        self._most = processes_for(self._cores, predicting, limit, self._limits.processes)
        slots = slots_for(batch_size, self._most, self._in_flight)
        places = inputs.places_in_slot
        arrays = tuple(ArrayShape(place.shape, place.element_type) for place in places)
        layout = ArenaLayout(slots, batch_size, steps, self._most, arrays)
        if self._pool is not None:
            other_cores = usable_core_numbers() - place.cores if place.cores else ANYWHERE
            names = [tensor.name for tensor in inputs.supplied]
            try:
                self._pool.map(layout, names, samples, other_cores)
            except ProcessesUnavailable as error:
                self._give_up(error)
        if self._pool is None:
            return [inputs.slot() for _ in range(LEAST_SLOTS)]
        shared = [self._pool.slot(number).arrays for number in range(slots)]
        return [inputs.slot_of(arrays, number) for number, arrays in enumerate(shared)]

    def plan(self, prepare_ns: int, predict_ns: int, finish_ns: int = 0) -> None:
        """Settle how many processes there are to be, once `slots` was called.

        A batch is prepared in `prepare_ns` by one thread and predicted in `predict_ns`; 0 is
        unknown. Where it is not quickly finished, in `finish_ns`, one more process post-processes.
        """
        self._finishes_apart = not is_quick_finish(finish_ns)
        self._planned = needed_processes(prepare_ns, predict_ns, self._most)

    def start(self) -> None:
        """Start the processes, unless they are started."""
        if self._pool is None or self.is_started:
            return
        try:
            self._pool.start(self._planned)
        except ProcessesUnavailable as error:
            self._give_up(error)
        else:
            self.started = self._pool
            if self._finishes_apart:
                with contextlib.suppress(ProcessesUnavailable):  # then the worker post-processes
                    self.finishing = self._pool.finishing_process()

    @property
    def is_started(self) -> bool:
        """Whether its processes run."""
        return self.started is not None

    def close(self) -> None:
        """End all processes."""
        if self.finishing is not None:
            self.finishing.close()
        if self._pool is not None:
            self._pool.close()
        self._pool = self.started = self.finishing = None

    def _give_up(self, error: ProcessesUnavailable) -> None:
        self.refusal = error.reason
        self.close()
