"""The clock of every timestamp: CLOCK_MONOTONIC in ns, mapped to the epoch at a run's both ends."""

import time
from pathlib import Path

from schemas.run import ClockOrigin

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

now_ns = time.monotonic_ns
"""Nanoseconds of CLOCK_MONOTONIC, the same for every process of one boot."""


def boot_id() -> str:
    """Return the id of the boot that the clock counts from; '' where the system does not say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def paired_stamps(tries: int = 9) -> tuple[int, int]:
    """Return one instant as (monotonic_ns, epoch_ns).

    The epoch is read between two monotonic stamps, `tries` times; the pair with the least distance
    counts, so the error is at most half that distance (well below 1 us on a quiet machine).
    """
    best = (1 << 62, 0, 0)
    for _ in range(tries):
        before = now_ns()
        epoch = time.time_ns()
        after = now_ns()
        best = min(best, (after - before, (before + after) // 2, epoch))
    return best[1], best[2]


def epoch_offset_ns() -> int:
    """Return the current difference of epoch nanoseconds and CLOCK_MONOTONIC."""
    monotonic, epoch = paired_stamps()
    return epoch - monotonic


def started_origin() -> ClockOrigin:
    """Return the origin of an attempt that starts now."""
    monotonic, epoch = paired_stamps()
    return ClockOrigin(monotonic_ns=monotonic, epoch_start_ns=epoch, boot_id=boot_id())


def ended_origin(origin: ClockOrigin) -> ClockOrigin:
    """Return `origin` with the mapping at the attempt's end."""
    monotonic, epoch = paired_stamps()
    return origin.model_copy(update={"monotonic_end_ns": monotonic, "epoch_end_ns": epoch})


def wall_step_ns(origin: ClockOrigin) -> int:
    """Return how far the wall clock moved against the monotonic clock during the attempt."""
    if not origin.monotonic_end_ns:
        return 0
    wall = origin.epoch_end_ns - origin.epoch_start_ns
    return wall - (origin.monotonic_end_ns - origin.monotonic_ns)
