"""Small disks of a test's own, and how they are filled."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

SMALL_MIB = 400


def mount_small(folder: Path, mib: int = SMALL_MIB) -> str:
    """Mount a disk of `mib` MiB on a folder; return why that can't be, '' once it is mounted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=711", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "no `mount` here"
    return mounted.stderr.strip()


def unmount(folder: Path) -> None:
    """Take a small disk away, with all that is on it."""
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


def remount(folder: Path, *, is_writable: bool) -> str:
    """Let a small disk be written or not; return why that fails, as where a file is open."""
    how = f"remount,{'rw' if is_writable else 'ro'}"
    command = ["mount", "-o", how, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()


def check_small(disk: Path) -> None:
    """Raise ValueError for anything that is not the root of a disk of at most 400 MiB."""
    total_bytes = shutil.disk_usage(disk).total
    if not os.path.ismount(disk) or total_bytes > SMALL_MIB << 20:
        raise ValueError(f"{disk} is no small disk of its own: {total_bytes} bytes are not filled")


def fill(file: Path) -> None:
    """Take all the room that is left on a small disk of a test's own, and on no other."""
    check_small(file.parent)
    with file.open("ab", buffering=0) as output:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    output.write(b"\0" * size)
