"""What this process used of its machine, read when somebody asks (I/O)."""

import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def process_figures(restarts: int) -> Callable[[], dict[str, object]]:
    """Return what tells the figures of this process, which was started again `restarts` times."""
    host, started_s = socket.gethostname(), time.time()

    def figures() -> dict[str, object]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "host": host,
            "started_s": started_s,
            "restarts": restarts,
            "cpu_s": used.ru_utime + used.ru_stime,
            "memory_bytes": _resident_bytes(used.ru_maxrss),
        }

    return figures


def _resident_bytes(peak: int) -> int:
    """Return the resident memory; its `peak`, as the system counts it, where there is no /proc."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return peak if sys.platform == "darwin" else peak * 1024
