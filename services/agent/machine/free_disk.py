"""How much more a disk can hold (I/O)."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class FreeDisk:
    """What was free on a disk at some time."""

    #: for users other than root
    room_bytes: int
    #: how many more files it can hold; 0 where there is no limit
    files: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return what is free now on the disk of `path`. Raises OSError."""
        disk = os.statvfs(path)
        # Some file systems make inodes as they need them, and count none.
        return cls(disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else 0)
