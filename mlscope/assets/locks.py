"""Locks between processes of one host (flock); the kernel frees them when a process dies.

A lock is on the file or folder itself. Its path may be removed or replaced between opening and
locking, so the path is checked again once the lock is held.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Kind = Literal["shared", "exclusive"]
_OPERATIONS = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX}


def try_lock(path: Path, kind: Kind, *, make: bool = False) -> int | None:
    """Return a descriptor that holds a lock of `kind` on `path`, None if others prevent it.

    With `make`, a missing file is created, open for writing. Raises OSError, FileNotFoundError.
    """
    flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, _OPERATIONS[kind] | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if is_still_at(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Wait for an exclusive lock and hold it inside the context; the file stays. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def share(descriptor: int) -> None:
    """Turn an exclusive lock into a shared one, without waiting."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def is_still_at(descriptor: int, path: Path) -> bool:
    """Tell whether a path still leads to the file of a descriptor."""
    try:
        current = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (current.st_dev, current.st_ino) == (own.st_dev, own.st_ino)
