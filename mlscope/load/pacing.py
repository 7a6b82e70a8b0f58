"""Pacing in this process: issues a schedule from the calling thread.

If other threads of this process may delay it (the GIL, a garbage collection, a model on all cores),
use `pacer`, which issues from a separate process.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mlscope.load.issuing import (
    MONOTONIC,
    Clock,
    calibrate_margin_ns,
    issue_on_time,
    sharpen_timer,
)

__all__ = ["MONOTONIC", "Clock", "calibrate_margin_ns", "lateness_ns", "pace", "sharpen_timer"]


def pace(
    due_ns: NDArray[np.int64],
    issue: Callable[[int], None],
    origin_ns: int,
    margin_ns: int,
    clock: Clock = MONOTONIC,
    stop: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64]:
    """Call `issue(query)` at `origin_ns` + `due_ns[query]`, never early; return the times of issue.

    `due_ns` is int64 [queries], non-decreasing; `margin_ns` is the time to spin before each due
    time (`calibrate_margin_ns()`). Returns stamps of `clock` taken just before each call, int64
    [issued]; shorter than the schedule only if `stop()` became true. Sharpens the calling thread's
    timer.
    """
    sharpen_timer()
    issued_ns = np.full(len(due_ns), -1, np.int64)
    stamps = issued_ns.data

    def stamp(query: int, now_ns: int) -> None:
        stamps[query] = now_ns
        issue(query)

    count = issue_on_time(
        np.ascontiguousarray(due_ns).data, stamp, origin_ns, margin_ns, clock, stop
    )
    return issued_ns[:count]


def lateness_ns(
    due_ns: NDArray[np.int64], issued_ns: NDArray[np.int64], origin_ns: int
) -> NDArray[np.int64]:
    """Return the lateness of each query in ns, int64 [issued]; negative means early.

    `issued_ns` minus `origin_ns` + `due_ns`; `due_ns` may be longer than `issued_ns`.
    """
    return issued_ns - due_ns[: len(issued_ns)] - origin_ns
