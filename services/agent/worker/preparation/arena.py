"""The memory that a worker shares with its preparing processes (I/O)."""

import mmap
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from services.agent.machine.anonymous_memory import anonymous_memory
from services.agent.worker.preparation.layout import (
    REASON_BYTES,
    ArenaLayout,
    ArrayShape,
)

Array = npt.NDArray[Any]

PENDING, PREPARED, UNUSABLE = 0, 1, 2
"""States of a sample in its slot."""


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """One slot: the model's input arrays, and a column for each thing known of its samples."""

    arrays: tuple[Array, ...]
    #: numbers in the dataset
    samples: Array
    #: PENDING, PREPARED or UNUSABLE
    states: Array
    #: native ids of the threads that prepared them
    threads: Array
    #: CLOCK_MONOTONIC ns at which each step began and ended, 0 for a step that did not run
    stamps: Array
    reasons: Array

    def set_reason(self, position: int, reason: str) -> None:
        """Say why the sample at a position can't be prepared."""
        text = reason.encode(errors="replace")[: REASON_BYTES - 1]
        self.reasons[position, : len(text)] = np.frombuffer(text, np.uint8)
        self.reasons[position, len(text)] = 0
        self.states[position] = UNUSABLE

    def reason(self, position: int) -> str:
        """Return why the sample at a position can't be prepared."""
        text: bytes = self.reasons[position].tobytes()
        return text[: text.index(0)].decode(errors="ignore")


class Arena:
    """Shared memory with slots, and with a few numbers of each process.

    `done`, `prepared`, `began_ns` and `busy_ns` have an item for each process, by its number: its
    last order that is done, how many samples it has been through, when it began the current one, 0
    for none, and how long it has carried out orders. Orders before `cancelled[0]` are not carried
    out.
    """

    def __init__(self, fd: int, layout: ArenaLayout) -> None:
        """Map the arena of a descriptor, which the caller keeps, as its `layout` says."""
        self.layout = layout
        self._pages = mmap.mmap(fd, layout.size_bytes)
        columns = memoryview(self._pages)[: layout.control_bytes].cast("q")
        count = layout.processes
        self.cancelled = columns[:1]
        self.done, self.prepared, self.began_ns, self.busy_ns = (
            columns[1 + number * count : 1 + (number + 1) * count] for number in range(4)
        )
        column = ArrayShape((layout.batch_size,), "int64")
        stamps = ArrayShape((layout.batch_size, layout.steps, 2), "int64")
        reasons = ArrayShape((layout.batch_size, REASON_BYTES), "uint8")
        self.slots = tuple(
            SlotMemory(
                tuple(map(self._array, layout.arrays, offsets.arrays)),
                self._array(column, offsets.samples),
                self._array(column, offsets.states),
                self._array(column, offsets.threads),
                self._array(stamps, offsets.stamps),
                self._array(reasons, offsets.reasons),
            )
            for offsets in layout.slot_offsets
        )

    @classmethod
    def create(cls, layout: ArenaLayout) -> tuple[Self, int]:
        """Return an arena of zeros and its descriptor, with its memory reserved.

        Raises OSError where there is not enough.
        """
        fd = anonymous_memory("mlscope-preparation", layout.size_bytes, layout.reserved_bytes)
        with ExitStack() as undo:
            undo.callback(os.close, fd)
            arena = cls(fd, layout)
            undo.pop_all()
        return arena, fd

    def _array(self, array: ArrayShape, offset: int) -> Array:
        kind = np.dtype(array.element_type)
        count = array.size_bytes // kind.itemsize
        return np.frombuffer(self._pages, kind, count, offset).reshape(array.shape)
