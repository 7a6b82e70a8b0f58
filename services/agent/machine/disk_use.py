"""How much of a disk is used, by a folder and by files that are deleted but open (I/O)."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from services.agent.machine.process_group import PROCESSES

INODE_BYTES = 16 << 10
"""A file counts as so many bytes more: many file systems have one inode for so many."""
_BLOCK_BYTES = 512


class FileKey(NamedTuple):
    """What names a file on this machine."""

    device: int
    inode: int


def used_bytes(path: Path) -> int:
    """Return how much of the disk of `path` is used, with `INODE_BYTES` a file. Raises OSError."""
    disk = os.statvfs(path)
    used_blocks, used_inodes = disk.f_blocks - disk.f_bfree, disk.f_files - disk.f_ffree
    return used_blocks * disk.f_frsize + used_inodes * INODE_BYTES


def free_bytes(path: Path) -> int:
    """Return how much more this user may keep on the disk of `path`. Raises OSError."""
    disk = os.statvfs(path)
    free = disk.f_bavail * disk.f_frsize
    # Some file systems make inodes as they need them, and count none.
    return min(free, disk.f_favail * INODE_BYTES) if disk.f_files else free


def folder_bytes(folder: Path, limit_bytes: int) -> int:
    """Return how much of its disk a folder takes, with `INODE_BYTES` a file.

    It stops once that is more than `limit_bytes`. A file with several names counts once, and no
    link is followed. Raises OSError where a folder below cannot be listed.
    """
    total_bytes, folders, linked = 0, [os.fspath(folder)], set[FileKey]()
    while folders and total_bytes <= limit_bytes:
        with suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(state.st_mode):
                        folders.append(entry.path)
                    elif state.st_nlink > 1:
                        if key_of(state) in linked:
                            continue
                        linked.add(key_of(state))
                    total_bytes += taken_bytes(state)
                if total_bytes > limit_bytes:
                    break
    return total_bytes


def deleted_bytes(
    pids: Iterable[int], disk: Path, apart: Iterable[FileKey] = (), processes: Path = PROCESSES
) -> int:
    """Return how much of the disk of `disk` deleted files take that the `pids` hold.

    A process holds a file that it has open, or, where this one is root, mapped.

    Those `apart` do not count. A process that ended meanwhile, or may not be looked at, has none;
    `processes` is where the kernel shows them. Raises OSError where there is no `disk`.
    """
    device, counted = disk.stat().st_dev, {*apart}
    total_bytes = 0
    for pid in pids:
        for state in _held_by(processes / str(pid)):
            key = key_of(state)
            is_deleted = stat.S_ISREG(state.st_mode) and not state.st_nlink
            if is_deleted and key.device == device and key not in counted:
                counted.add(key)
                total_bytes += taken_bytes(state)
    return total_bytes


def _held_by(process: Path) -> Iterator[os.stat_result]:
    """Yield the states of the files that a process has open or mapped; only root sees the latter.

    https://man7.org/linux/man-pages/man5/proc_pid_map_files.5.html
    """
    for held in ("fd", "map_files"):
        with suppress(OSError), os.scandir(process / held) as entries:
            for entry in entries:
                with suppress(OSError):
                    yield entry.stat()


def taken_bytes(state: os.stat_result) -> int:
    """Return how much of its disk the file with this `state` takes, with `INODE_BYTES`."""
    return state.st_blocks * _BLOCK_BYTES + INODE_BYTES


def key_of(state: os.stat_result) -> FileKey:
    """Return what names the file with this `state`."""
    return FileKey(state.st_dev, state.st_ino)
