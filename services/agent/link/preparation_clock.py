"""Which samples a worker prepares, and since when: its threads note it, its host reads it.

The numbers lie in memory that both share, so that the host knows them when a decoder hangs, with or
without the interpreter, and when one has ended the process.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from mlscope.tracing.clock import now_ns

PLACES = 24
"""Threads that may prepare at a time: 16 share a batch, and the one that predicts helps."""
CELLS = 2 * PLACES


class SampleUnderWay(NamedTuple):
    """The number of a sample that is being prepared, and since when (CLOCK_MONOTONIC ns)."""

    sample: int
    since_ns: int


class PreparationClock:
    """The samples that the threads of one worker prepare at this moment."""

    def __init__(self, cells: "memoryview[int] | list[int] | None" = None) -> None:
        """Keep them in `cells`, `CELLS` unsigned numbers; without any, nobody else sees them.

        Each thread has two: since when it prepares a sample (0: none), and the sample's number.
        """
        self._cells = [0] * CELLS if cells is None else cells
        self._free_places = deque(range(0, CELLS, 2))

    @contextmanager
    def preparing(self, sample: int) -> Iterator[None]:
        """Note that this thread prepares the sample with a number, as long as this is entered."""
        place = self._free_places.pop()
        self._cells[place + 1], self._cells[place] = sample, now_ns()
        try:
            yield
        finally:
            self._cells[place] = 0
            self._free_places.append(place)

    @property
    def under_way(self) -> list[SampleUnderWay]:
        """The samples that are being prepared, the one that began first at the front."""
        pairs = ((self._cells[place + 1], self._cells[place]) for place in range(0, CELLS, 2))
        samples = (SampleUnderWay(sample, since_ns) for sample, since_ns in pairs if since_ns)
        return sorted(samples, key=lambda sample: sample.since_ns)


def preparing_text(samples: Sequence[SampleUnderWay]) -> str:
    """Return " while sample 8 was prepared" for a sentence, of one of the `samples` or several.

    '' for none.
    """
    if not samples:
        return ""
    *first, last = [str(sample.sample) for sample in samples]
    numbers = f"samples {', '.join(first)} and {last} were" if first else f"sample {last} was"
    return f" while {numbers} prepared"
