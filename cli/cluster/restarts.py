"""When to start again what has ended: at once, then ever later, until it holds. Pure."""

from dataclasses import dataclass, replace

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
STABLE_S = 10.0
"""A process that ran this long owes nothing for its earlier ends."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a process was started again, and how often in a row it ended early."""

    total: int = 0
    in_a_row: int = 0


def after_end(history: Restarts, ran_s: float) -> Restarts:
    """Return the history once a process has ended that had run for `ran_s` seconds."""
    early = 1 if ran_s >= STABLE_S else history.in_a_row + 1
    return replace(history, total=history.total + 1, in_a_row=early)


def delay_s(history: Restarts) -> float:
    """Return how long to wait before the next start: doubling from 0.1 s up to 5 s."""
    # The exponent is capped because 2.0**2000 is no float.
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(max(history.in_a_row - 1, 0), 16))
