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
        # The peak, as the system counts it, where there is no /proc.
        resident_bytes = used.ru_maxrss if sys.platform == "darwin" else used.ru_maxrss * 1024
        with suppress(OSError):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident_bytes = pages * os.sysconf("SC_PAGE_SIZE")
        return {
            "host": host,
            "started_s": started_s,
            "restarts": restarts,
            "cpu_s": used.ru_utime + used.ru_stime,
            "memory_bytes": resident_bytes,
        }

    return figures
