"""A profiler's clock mapped to CLOCK_MONOTONIC by two measured pairs. Pure but for `paired`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from mlscope.tracing.clock import now_ns

_TRIES = 9


@dataclass(frozen=True, slots=True)
class Pair:
    """One instant on both clocks, in nanoseconds; `error_ns` is how far apart they may be."""

    monotonic_ns: int
    foreign_ns: int
    error_ns: int = 0


@dataclass(frozen=True, slots=True)
class ClockMap:
    """Foreign stamps as monotonic ones: the straight line through two pairs.

    A wall clock that was slewed between them is followed; one that was stepped is not, and
    `drift_ns` shows it.
    """

    first: Pair
    last: Pair

    @classmethod
    def between(cls, first: Pair, last: Pair) -> Self:
        """Return the mapping that fits a stretch from `first` to `last`."""
        return cls(first, last)

    @property
    def drift_ns(self) -> int:
        """Return how far the foreign clock moved against the monotonic one."""
        foreign = self.last.foreign_ns - self.first.foreign_ns
        return foreign - (self.last.monotonic_ns - self.first.monotonic_ns)

    @property
    def error_ns(self) -> int:
        """Return the bound of the mapping's error at the pairs."""
        return max(self.first.error_ns, self.last.error_ns)

    def monotonic(self, foreign_ns: int) -> int:
        """Return a foreign stamp in nanoseconds of CLOCK_MONOTONIC."""
        since = foreign_ns - self.first.foreign_ns
        length = self.last.foreign_ns - self.first.foreign_ns
        if length <= 0:
            return self.first.monotonic_ns + since
        return self.first.monotonic_ns + since - round(self.drift_ns * since / length)


def paired(foreign_ns: Callable[[], int] = time.time_ns) -> Pair:
    """Return one instant on both clocks: of nine tries the one whose stamps lie closest."""
    best = Pair(0, 0, 1 << 62)
    for _ in range(_TRIES):
        before = now_ns()
        foreign = foreign_ns()
        after = now_ns()
        if after - before < best.error_ns:
            best = Pair((before + after) // 2, foreign, after - before)
    return best
