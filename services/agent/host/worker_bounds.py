"""What a worker uses of its machine, against what its agent's owner allows (I/O).

The host measures it from time to time, while the worker lives: limits of the kernel count address
space, of which frameworks reserve many times what they use, or all processes of a user, or need a
control group or a file system of its own, which a container may not create. Between two
measurements a worker may exceed a bound.
"""

import asyncio
import os
from pathlib import Path

from services.agent.errors import AgentError
from services.agent.host.bound_errors import DiskExceeded, TooManyProcesses, WorkerTooLarge
from services.agent.link.bounds import Bounds
from services.agent.machine.disk_use import (
    deleted_bytes,
    folder_bytes,
    free_bytes,
    key_of,
    taken_bytes,
    used_bytes,
)
from services.agent.machine.process_group import group_threads, machine_threads
from services.agent.machine.process_memory import process_memory_bytes

_LEAST_DISK_BYTES = 64 << 20
"""What a worker may write on any disk: libraries need a few files."""


class Share:
    """A worker's share of what the whole machine uses, of which only the whole is cheap to read.

    The share is measured once the whole has grown by what is left until the limit.
    """

    def __init__(self, limit: int, whole: int) -> None:
        """Take the `limit` of a share that is 0 now, and how much the `whole` is now."""
        self.limit = limit
        self._whole, self._share, self._grown = whole, 0, 0

    def may_exceed(self, whole: int) -> bool:
        """Tell whether the share may be above its limit now that the whole is `whole`.

        What others release is not subtracted: it must not hide what the worker took.
        """
        self._grown += max(0, whole - self._whole)
        self._whole = whole
        return self._grown > self.limit - self._share

    def note(self, share: int) -> bool:
        """Note a measurement of the `share`; tell whether it exceeds its limit."""
        self._share, self._grown = share, 0
        return share > self.limit


class WorkerBounds:
    """The use of one worker, from its start on."""

    def __init__(self, bounds: Bounds, scratch: Path, spool_fd: int, spool_bytes: int) -> None:
        """Take the `bounds` of a worker that has not started, and its folder `scratch`.

        The file `spool_fd` may hold `spool_bytes` in addition. Raises OSError without the folder.
        """
        self._bounds, self._scratch = bounds, scratch
        self._spool_fd, self._spool_bytes = spool_fd, spool_bytes
        # Half of what is free is left to others, such as the broker and the database.
        most_bytes = max(_LEAST_DISK_BYTES, min(bounds.disk_bytes, free_bytes(scratch) // 2))
        self._disk = Share(most_bytes, used_bytes(scratch))
        self._threads = Share(bounds.processes, machine_threads())

    async def excess(self, pid: int, group: int) -> AgentError | None:
        """Return the error of a worker that uses more than it may, or None.

        Its own process is `pid` (0: unknown), and it has started the others of its `group` (0: they
        are not bounded here).
        """
        excess = self._memory_excess(pid) or self._process_excess(group)
        return excess or await self._disk_excess(pid, group)

    def _memory_excess(self, pid: int) -> WorkerTooLarge | None:
        most_bytes = self._bounds.memory_bytes
        if not most_bytes:
            return None
        memory_bytes = process_memory_bytes(pid)
        return WorkerTooLarge(memory_bytes, most_bytes) if memory_bytes > most_bytes else None

    def _process_excess(self, group: int) -> TooManyProcesses | None:
        if not self._bounds.processes or not group:
            return None
        if not self._threads.may_exceed(machine_threads()):
            return None
        threads = sum(group_threads(group).values())
        is_excess = self._threads.note(threads)
        return TooManyProcesses(threads, self._threads.limit) if is_excess else None

    async def _disk_excess(self, pid: int, group: int) -> DiskExceeded | None:
        if not self._bounds.disk_bytes:
            return None
        try:
            # Without a sandbox, a model may remove its own folder.
            if not self._disk.may_exceed(used_bytes(self._scratch.parent)):
                return None
            worker_bytes = await asyncio.to_thread(self._taken_bytes, pid, group)
        except OSError as error:
            # The worker nested its folders too deep, or closed one to its host.
            return DiskExceeded(self._disk.limit, f"its folder can't be measured: {error.strerror}")
        if not self._disk.note(worker_bytes):
            return None
        return DiskExceeded(self._disk.limit, f"its files take {worker_bytes} bytes or more")

    def _taken_bytes(self, pid: int, group: int) -> int:
        """Return how much of the disk the worker's files take. Raises OSError."""
        spool = os.fstat(self._spool_fd)
        excess_bytes = max(0, taken_bytes(spool) - self._spool_bytes)
        pids = {pid, *(group_threads(group) if group else ())}
        deleted = deleted_bytes(pids, self._scratch, apart=(key_of(spool),))
        return excess_bytes + deleted + folder_bytes(self._scratch, self._disk.limit)
