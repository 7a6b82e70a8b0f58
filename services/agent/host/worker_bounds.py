"""What a worker uses of its machine, against what its agent's owner allows (I/O).

The host measures it from time to time, while the worker lives: limits of the kernel count address
space, of which frameworks reserve many times what they use, or all processes of a user, or need a
control group or a file system of its own, which a container may not create. Between two
measurements a worker may exceed a bound.

What a model keeps on the disk can't be measured: it may have deleted a file that it holds, and have
hidden that. So the bound is what everybody can see, the space that is left.
"""

import asyncio
import contextlib
from pathlib import Path

from services.agent.errors import AgentError
from services.agent.host.bound_errors import DiskFull, TooManyProcesses, WorkerTooLarge
from services.agent.link.bounds import Bounds
from services.agent.machine.free_disk import FreeDisk
from services.agent.machine.process_group import group_threads, machine_threads
from services.agent.machine.process_memory import process_memory_bytes

_RESERVED_SHARE = 8
"""At most an eighth of what was free at its start is reserved: it can start on any disk."""
_RESERVED_FILES = 65_536


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

    def __init__(self, bounds: Bounds, folder: Path) -> None:
        """Take the `bounds` of a worker that has not started, and the `folder` of its agent.

        The worker's own folder is on the same disk. Raises OSError without the folder.
        """
        self._bounds, self._folder = bounds, folder
        free = FreeDisk.of(folder)
        self._reserved = FreeDisk(
            min(bounds.disk_reserve_bytes, free.room_bytes // _RESERVED_SHARE),
            min(_RESERVED_FILES, free.files // _RESERVED_SHARE),
        )
        self._threads = Share(bounds.processes, machine_threads())

    async def excess(self, pid: int, group: int) -> AgentError | None:
        """Return the error of a worker that uses more than it may, or None.

        Its own process is `pid` (0: unknown), and it has started the others of its `group` (0: they
        are not bounded here).
        """
        excess = self._memory_excess(pid) or self._disk_excess()
        return excess or await self._process_excess(group)

    def _memory_excess(self, pid: int) -> WorkerTooLarge | None:
        most_bytes = self._bounds.memory_bytes
        if not most_bytes:
            return None
        memory_bytes = process_memory_bytes(pid)
        return WorkerTooLarge(memory_bytes, most_bytes) if memory_bytes > most_bytes else None

    def _disk_excess(self) -> DiskFull | None:
        if not self._bounds.disk_reserve_bytes:
            return None
        # An agent whose folder is gone has no disk to look after.
        with contextlib.suppress(OSError):
            free = FreeDisk.of(self._folder)
            if free.room_bytes < self._reserved.room_bytes:
                return DiskFull(f"{free.room_bytes} bytes", f"{self._reserved.room_bytes} bytes")
            if free.files < self._reserved.files:
                return DiskFull(f"room for {free.files} files", f"room for {self._reserved.files}")
        return None

    async def _process_excess(self, group: int) -> TooManyProcesses | None:
        if not self._bounds.processes or not group:
            return None
        if not self._threads.may_exceed(machine_threads()):
            return None
        threads = sum((await asyncio.to_thread(group_threads, group)).values())
        is_excess = self._threads.note(threads)
        return TooManyProcesses(threads, self._threads.limit) if is_excess else None
