"""Where things lie in the memory that a worker shares with its preparing processes."""

import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

REASON_BYTES = 4096
"""Room for the reason why a sample can't be prepared."""
_INT64_BYTES = 8
_STAMPS = 2


@dataclass(frozen=True)
class ArrayShape:
    """The shape of one input array, with the batch dimension, and its NumPy element type."""

    shape: tuple[int, ...]
    element_type: str

    @property
    def size_bytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * np.dtype(self.element_type).itemsize


@dataclass(frozen=True)
class SlotOffsets:
    """Offsets in bytes of what one slot has.

    `arrays` are the model's inputs. The others have an item for each sample of the batch: its
    number in the dataset, its state, the native id of the thread that prepared it, the stamps of
    its steps, and why it can't be prepared.
    """

    arrays: tuple[int, ...]
    samples: int
    states: int
    threads: int
    stamps: int
    reasons: int


@dataclass(frozen=True)
class ArenaLayout:
    """The layout of an arena: each array begins on a page, so that it can be page-locked alone."""

    slots: int
    batch_size: int
    #: steps before the model, of all its inputs together
    steps: int
    #: most processes at a time
    processes: int
    #: one slot's input arrays, in the order in which they are asked for
    arrays: tuple[ArrayShape, ...]

    @cached_property
    def slot_offsets(self) -> tuple[SlotOffsets, ...]:
        """Where each slot's parts lie."""
        slots = []
        for number in range(self.slots):
            offset, offsets = self.control_bytes + number * self._slot_bytes, []
            for size in self._part_bytes:
                offsets.append(offset)
                offset += _pages(size)
            *arrays, samples, states, threads, stamps = offsets
            reasons = self.reserved_bytes + number * self.batch_size * REASON_BYTES
            slots.append(SlotOffsets(tuple(arrays), samples, states, threads, stamps, reasons))
        return tuple(slots)

    @property
    def control_bytes(self) -> int:
        """Size of the columns at the start of the arena, one int64 a process each."""
        return _pages(_INT64_BYTES * (1 + 4 * self.processes))

    @property
    def reserved_bytes(self) -> int:
        """Bytes from the start that are written in every run; behind them lie reasons alone."""
        return self.control_bytes + self.slots * self._slot_bytes

    @property
    def size_bytes(self) -> int:
        """Its whole size."""
        return self.reserved_bytes + self.slots * self.batch_size * REASON_BYTES

    def fields(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        arrays = [[list(array.shape), array.element_type] for array in self.arrays]
        counts = {"slots": self.slots, "batch_size": self.batch_size, "steps": self.steps}
        return {**counts, "processes": self.processes, "arrays": arrays}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the layout that `fields` returned."""
        arrays = tuple(ArrayShape(tuple(shape), kind) for shape, kind in fields["arrays"])
        return cls(**{**fields, "arrays": arrays})

    @property
    def _slot_bytes(self) -> int:
        return sum(_pages(size) for size in self._part_bytes)

    @property
    def _part_bytes(self) -> Sequence[int]:
        column = _INT64_BYTES * self.batch_size
        stamps = column * self.steps * _STAMPS
        return [*(array.size_bytes for array in self.arrays), column, column, column, stamps]


def _pages(size_bytes: int) -> int:
    """Return a size as whole pages, at least one."""
    return max(1, -(-size_bytes // mmap.PAGESIZE)) * mmap.PAGESIZE
