"""Pairs of simultaneous times on a foreign clock and CLOCK_MONOTONIC, measured."""

import time
from collections.abc import Callable

from mlscope.tracing.clock import now_ns
from services.agent.collectors.cupti.clock import Pair

_TRIES = 9


def paired(foreign_ns: Callable[[], int] = time.time_ns) -> Pair:
    """Return one instant on both clocks: of nine tries, the one with the least error."""
    best = Pair(0, 0, 1 << 62)
    for _ in range(_TRIES):
        before = now_ns()
        foreign = foreign_ns()
        after = now_ns()
        if after - before < best.error_ns:
            best = Pair((before + after) // 2, foreign, after - before)
    return best
