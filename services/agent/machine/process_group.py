"""The processes of a group, and how many the machine has. Reads /proc.

What is counted is what the kernel limits (`pids.max`, RLIMIT_NPROC): processes with their threads.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from services.agent.machine.kernel_files import text_of

PROCESSES = Path("/proc")
# Fields of `stat` after the program's name, which may hold spaces and brackets.
_GROUP, _THREADS = 2, 17
_TOTAL = re.compile(r"/(\d+) ")


def machine_threads(processes: Path = PROCESSES) -> int:
    """Return how many threads all processes of this machine have; 0 where it is unknown.

    The number after the `/` of https://man7.org/linux/man-pages/man5/proc_loadavg.5.html.
    """
    numbers = _TOTAL.search(text_of(processes / "loadavg"))
    return int(numbers[1]) if numbers else 0


def group_threads(group: int, processes: Path = PROCESSES) -> Mapping[int, int]:
    """Return how many threads each process of a `group` has, by its process id.

    `pgrp` and `num_threads` of https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html; empty
    where it is unknown.
    """
    threads: dict[int, int] = {}
    for folder in processes.glob("[0-9]*"):
        fields = text_of(folder / "stat").rpartition(")")[2].split()
        if len(fields) > _THREADS and int(fields[_GROUP]) == group:
            threads[int(folder.name)] = int(fields[_THREADS])
    return threads
