"""When a host takes the batches that its worker has finished: seldom while queries are timed.

What follows a batch (publishing, storing, drawing it live) may run on the cores of the model that
is measured: ten batches a second lengthened the 90th percentile of a model on all cores by a
fifth (`benchmarks.observing`). In the ring they cost nothing, and outlive the worker.
"""

from collections.abc import Callable

from mlscope.tracing.clock import now_ns

MOST_FILLED = 0.5
"""Share of the ring at which batches are taken at once: before any go to the spool."""


class BatchTaking:
    """Says when batches are due: every `interval_s`, or when they fill half of the ring."""

    def __init__(self, interval_s: float, clock_ns: Callable[[], int] = now_ns) -> None:
        """Count the interval from now on, by `clock_ns`; an interval of 0 is always over."""
        self._interval_ns, self._clock_ns = interval_s * 1e9, clock_ns
        self._taken_ns = clock_ns()

    def is_due(self, filled: float, *, has_ended: bool) -> bool:
        """Whether to take what waits and fills a share of the ring, `filled`.

        `has_ended` says that a run has ended: its rows are wanted, and no query is timed.
        """
        now = self._clock_ns()
        if has_ended or filled >= MOST_FILLED or now - self._taken_ns >= self._interval_ns:
            self._taken_ns = now
            return True
        return False
