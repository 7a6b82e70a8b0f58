"""The sleep-and-spin loop that issues a schedule; as a script, the pacer's process (`pacer`).

It imports the standard library only, not this package, so that the process starts in a few tens of
milliseconds. The clock is CLOCK_MONOTONIC everywhere, in nanoseconds.
"""

import gc
import mmap
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

#: the longest sleep before the loop checks again whether to stop
SLICE_NS = 50_000_000
MIN_MARGIN_NS, MAX_MARGIN_NS = 80_000, 400_000
PR_SET_TIMERSLACK = 29
#: the scheduling of a pacer: normal, at the best nice value, or real-time
PRIORITIES = ("normal", "nice", "fifo")

#: indexes of the int64 words at the start of the memory shared with the pacer's process
PUBLISHED, STOP, ORIGIN_NS, MARGIN_NS, CPU_NS, WALL_NS, PRIORITY, HEADER = range(8)


class Clock(NamedTuple):
    """The clock of the loop; tests pass their own."""

    now_ns: Callable[[], int]
    sleep_s: Callable[[float], None]


MONOTONIC = Clock(time.monotonic_ns, time.sleep)


def issue_on_time(
    due_ns: Iterable[int],
    issue: Callable[[int, int], None],
    origin_ns: int,
    margin_ns: int,
    clock: Clock = MONOTONIC,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Call `issue(query, now_ns)` at `origin_ns` + `due_ns[query]`, never early; return the count.

    Sleeps by `clock` until `margin_ns` before each due time, then spins. A late query is issued at
    once; later queries keep their due times. `stopped` is called before each query and every 50 ms
    of sleep. The garbage collector is off meanwhile.
    """
    now_ns, sleep_s = clock
    collecting = gc.isenabled()
    gc.disable()
    query = -1
    try:
        for query, offset_ns in enumerate(due_ns):
            at_ns = origin_ns + offset_ns
            while True:
                if stopped():
                    return query
                sleep_ns = at_ns - margin_ns - now_ns()
                if sleep_ns <= 0:
                    break
                sleep_s(min(sleep_ns, SLICE_NS) * 1e-9)
            reached_ns = now_ns()
            while reached_ns < at_ns:
                reached_ns = now_ns()
            issue(query, reached_ns)
        return query + 1
    finally:
        if collecting:
            gc.enable()


def sharpen_timer() -> bool:
    """Set this thread's timer slack to 1 ns instead of 50 us; return whether that succeeded."""
    import ctypes  # the one import that only Linux needs

    try:
        return ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0  # type: ignore[no-any-return]
    except (AttributeError, OSError, TypeError):
        return False


def raise_priority() -> int:
    """Raise the priority of this process as far as permitted; return an index of PRIORITIES.

    A pacer that waits for a core is late by whole scheduler slices of some ms. On a single core the
    priority stays normal, because spinning at a high priority would starve the measured process.
    """
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return 0
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return 2
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        return 1
    return 0


def calibrate_margin_ns(clock: Clock = MONOTONIC, naps: int = 150, nap_ns: int = 1_000_000) -> int:
    """Return how long before a due time to stop sleeping, from this thread's wake-up latency.

    Twice the 99th percentile (nearest rank) of the lateness of `naps` sleeps of `nap_ns` by
    `clock`, clamped to 80..400 us: a smaller margin would miss ordinary wake-ups, a larger one
    would waste the core.
    """
    lateness_ns = []
    for _ in range(naps):
        until_ns = clock.now_ns() + nap_ns
        clock.sleep_s(nap_ns * 1e-9)
        lateness_ns.append(clock.now_ns() - until_ns)
    ordinary_ns = sorted(lateness_ns)[max(0, -(-naps * 99 // 100) - 1)]
    return min(max(2 * ordinary_ns, MIN_MARGIN_NS), MAX_MARGIN_NS)


def _wait_for_start(go_fd: int, parent: int) -> bool:
    """Wait for the start; return False if the parent closed its end or died.

    A fork of a dead parent may still hold its end of the pipe.
    """
    start = select.poll()
    start.register(go_fd, select.POLLIN)
    while not start.poll(SLICE_NS // 1_000_000):
        if os.getppid() != parent:
            return False
    return bool(os.read(go_fd, 1))


def main(memory_fd: int, wake_fd: int, go_fd: int, queries: int) -> None:
    """Run the pacer's process: prepare, wait for the start, issue the queries, and end.

    Writes one byte to `wake_fd` when ready and one for each query; reads one from `go_fd` to
    start. The shared memory `memory_fd` is HEADER words, `queries` due times and `queries` issued
    stamps, all int64.
    """
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    memory = mmap.mmap(memory_fd, (HEADER + 2 * queries) * 8)
    shared = memoryview(memory).cast("q")
    header, due_ns = shared[:HEADER], shared[HEADER : HEADER + queries]
    issued_ns = shared[HEADER + queries :]
    sharpen_timer()
    if header[PRIORITY] != 0:
        header[PRIORITY] = raise_priority()
    if header[MARGIN_NS] < 0:
        header[MARGIN_NS] = calibrate_margin_ns()
    os.set_blocking(wake_fd, False)
    os.write(wake_fd, b"\0")
    if not _wait_for_start(go_fd, parent):
        return

    def publish(query: int, now_ns: int) -> None:
        issued_ns[query] = now_ns
        header[PUBLISHED] = query + 1
        # A full pipe holds thousands of wake-ups; the reader reads PUBLISHED after any of them.
        with suppress(BlockingIOError):
            os.write(wake_fd, b"\0")

    def stopped() -> bool:
        return header[STOP] != 0 or os.getppid() != parent

    began_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
    with suppress(BrokenPipeError):
        issue_on_time(due_ns, publish, header[ORIGIN_NS], header[MARGIN_NS], stopped=stopped)
    header[CPU_NS] = time.process_time_ns() - cpu_ns
    header[WALL_NS] = time.monotonic_ns() - began_ns


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
