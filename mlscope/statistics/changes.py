"""When a figure changed: only where the intervals of both measurements tell."""

from mlscope.statistics.ranking import Estimate, are_told_apart

LEAST_CHANGE = 0.03
"""A smaller change is not shown, however certain it is."""


def certain_change(before: Estimate, now: Estimate, drift: float | None = None) -> float:
    """Return by which share a figure changed from `before` to `now`, 0 where that is not certain.

    A change is certain where the intervals do not overlap and the ratio exceeds `drift`, the
    `repeat_limit` of both, where that is known. It is shown from `LEAST_CHANGE` on.
    """
    if before.value <= 0 or not (are_told_apart(before, now) or are_told_apart(now, before)):
        return 0.0
    change = now.value / before.value - 1
    larger, smaller = max(before.value, now.value), min(before.value, now.value)
    if drift is not None and larger <= smaller * (1.0 + drift):
        return 0.0
    return change if abs(change) >= LEAST_CHANGE else 0.0
