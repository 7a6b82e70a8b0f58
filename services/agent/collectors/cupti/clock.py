"""A profiler's clock mapped to CLOCK_MONOTONIC by two measured pairs. Pure."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Pair:
    """One instant on both clocks, in nanoseconds; `error_ns` is how far apart they may be."""

    monotonic_ns: int
    foreign_ns: int
    error_ns: int = 0


@dataclass(frozen=True, slots=True)
class ClockMap:
    """Foreign timestamps as monotonic ones: the straight line through two pairs.

    It follows a wall clock that was slewed between them; one that was stepped it does not follow,
    but `drift_ns` shows the step.
    """

    first: Pair
    last: Pair

    @classmethod
    def between(cls, first: Pair, last: Pair) -> Self:
        """Return the mapping for the time from `first` to `last`."""
        return cls(first, last)

    @property
    def drift_ns(self) -> int:
        """Return how far the foreign clock moved against the monotonic clock."""
        foreign = self.last.foreign_ns - self.first.foreign_ns
        return foreign - (self.last.monotonic_ns - self.first.monotonic_ns)

    @property
    def error_ns(self) -> int:
        """Return the bound of the mapping's error at the pairs."""
        return max(self.first.error_ns, self.last.error_ns)

    def monotonic(self, foreign_ns: int) -> int:
        """Return a foreign timestamp in nanoseconds of CLOCK_MONOTONIC."""
        since = foreign_ns - self.first.foreign_ns
        length = self.last.foreign_ns - self.first.foreign_ns
        if length <= 0:
            return self.first.monotonic_ns + since
        return self.first.monotonic_ns + since - round(self.drift_ns * since / length)
