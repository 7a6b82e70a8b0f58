"""Which cores of the host a thread that feeds a device has to itself (I/O: /proc, /sys).

A core's hardware threads share its units: while one is busy, the other computes at about half its
speed. `thread_siblings_list`: https://docs.kernel.org/admin-guide/cputopology.html
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

LEAST_CORES = 8
"""Of fewer cores none is set aside: preparation would lose more than prediction gains."""
ANYWHERE: frozenset[int] = frozenset()
"""No cores of its own: a thread runs where the kernel puts it."""
CORES_AT_START = (
    frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ANYWHERE
)
"""Those that this process could run on when it began; `ANYWHERE` where systems don't tell."""
_TOPOLOGY = Path("/sys/devices/system/cpu")
_OWN_STATE = Path("/proc/thread-self/stat")
_LAST_RAN_ON = 36
"""The place of `processor` among the fields after the command's name (proc_pid_stat(5))."""


def cores_set_aside(
    usable: frozenset[int], busy: int, state: Path = _OWN_STATE, topology: Path = _TOPOLOGY
) -> frozenset[int]:
    """Return the core that this thread runs on with its twin, of the `usable` ones.

    `busy` is how many of them a container allows to be busy at a time. `ANYWHERE` where they are
    fewer than `LEAST_CORES`, or where the core is unknown. `state` is the thread's file in /proc,
    and `topology` the folder of the kernel's list of cores.
    """
    if min(len(usable), busy) < LEAST_CORES:
        return ANYWHERE
    try:
        core = int(state.read_text().rpartition(")")[2].split()[_LAST_RAN_ON])
    except (OSError, ValueError, IndexError):
        return ANYWHERE
    return usable & {core, *_twins_of(core, topology)} if core in usable else ANYWHERE


@contextlib.contextmanager
def kept_on(cores: frozenset[int]) -> Iterator[bool]:
    """Keep this thread on some `cores`, and yield whether it is kept.

    It is not where the kernel refuses that, or for `ANYWHERE`.
    """
    if not cores:
        yield False
        return
    before = os.sched_getaffinity(0)
    are_kept = True
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        are_kept = False
    try:
        yield are_kept
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def regain_cores() -> None:
    """Let this thread, and what it starts, run on the cores that the process had at its start.

    A model whose process has the agent's user may bind any process of that user to a core, and the
    workers of others would inherit it.
    """
    if CORES_AT_START:
        # None of them may be left to a container.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, CORES_AT_START)


def _twins_of(core: int, topology: Path) -> frozenset[int]:
    """Return the numbers of the hardware threads of a core; none where they are unknown."""
    try:
        text = (topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
        bounds = [part.split("-") for part in text.strip().split(",")]
        ranges = [range(int(bound[0]), int(bound[-1]) + 1) for bound in bounds]
    except (OSError, ValueError):
        return frozenset()
    return frozenset(number for numbers in ranges for number in numbers)
