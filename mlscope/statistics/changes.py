"""When a figure changed: only where the intervals of both measurements tell."""

from mlscope.statistics.ranking import Estimate, are_told_apart

LEAST_CHANGE = 0.03
"""A smaller change is not shown, however certain it is."""


def certain_change(before: Estimate, now: Estimate) -> float:
    """Return by which share a figure changed from `before` to `now`, 0 where that is not certain.

    A change is certain where the intervals do not overlap, and shown from `LEAST_CHANGE` on.
    """
    if before.value <= 0 or not (are_told_apart(before, now) or are_told_apart(now, before)):
        return 0.0
    change = now.value / before.value - 1
    return change if abs(change) >= LEAST_CHANGE else 0.0
