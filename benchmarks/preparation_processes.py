"""How many photographs a second several processes prepare at a time."""

import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

Prepare = Callable[[int], object]
"""Prepares the photograph with this number and puts it into its place of a batch."""
_ROUNDS = 3
_TURN_S = 1.0
_WAIT_S = 120.0
"""Longest wait for the slowest process."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What each process does: `contestants` makes the ways to prepare one of the `photographs`."""

    contestants: Callable[[], Mapping[str, Prepare]]
    photographs: int

    def rates(self, processes: int) -> dict[str, float]:
        """Return the photographs a second that so many processes prepare together, by way.

        The ways take turns, at the same time in all; the median over the rounds counts. Raises
        queue.Empty where a process has ended before its time.
        """
        context = multiprocessing.get_context("spawn")
        barrier, measured = context.Barrier(processes), context.Queue()
        children = [
            context.Process(target=self.measure, args=(barrier, measured), daemon=True)
            for _ in range(processes)
        ]
        for child in children:
            child.start()
        counted: list[dict[str, list[float]]] = [measured.get(timeout=_WAIT_S) for _ in children]
        for child in children:
            child.join()
        return {
            name: median(sum(turn) for turn in zip(*(own[name] for own in counted), strict=True))
            for name in counted[0]
        }

    def measure(self, barrier: Barrier, measured: Any) -> None:
        """Put this process's rates into `measured`: by way, one for each round."""
        os.nice(10)  # as a preparing process
        contestants = self.contestants()
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(_ROUNDS):
            for name, prepare in contestants.items():
                barrier.wait(_WAIT_S)
                began, count = time.perf_counter(), 0
                while (elapsed := time.perf_counter() - began) < _TURN_S:
                    prepare(count % self.photographs)
                    count += 1
                rates[name].append(count / elapsed)
        measured.put(rates)
