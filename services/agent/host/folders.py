"""The folder of one start of an agent, locked while the agent lives, so that nobody clears it.

The kernel releases the lock with the process: a folder that can be locked belongs to a dead start.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mlscope.assets.locks import try_lock
from services.agent.host.removal import remove_tree

_TRIES = 16


@dataclass(slots=True)
class OwnFolder:
    """The folder of one start and the descriptor that locks it."""

    path: Path
    _lock: int

    def release(self) -> None:
        """Remove the folder and release its lock; called once."""
        remove_tree(self.path)
        os.close(self._lock)


def own_folder(parent: Path, incarnation: str) -> OwnFolder:
    """Create and lock this start's folder. Raises OSError."""
    path = parent / incarnation
    for _ in range(_TRIES):
        parent.mkdir(parents=True, exist_ok=True)
        # Nobody else may look at what models write. Workers of root are users of their own: they
        # pass through to folders that they alone may enter.
        path.mkdir(exist_ok=True, mode=0o700 if os.geteuid() else 0o711)
        # Another agent that clears dead folders may remove it before it is locked: try again.
        try:
            lock = try_lock(path, "exclusive")
        except FileNotFoundError:
            continue
        if lock is not None:
            return OwnFolder(path, lock)
    raise BlockingIOError(f"{path}: locked by another process")


def clear_dead(parent: Path) -> None:
    """Remove the folders of starts that are over, and files of older versions."""
    for path in list(parent.iterdir()) if parent.is_dir() else []:
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            continue
        lock = _lock_of(path)
        if lock is not None:
            remove_tree(path)
            os.close(lock)


def has_died(parent: Path, incarnation: str) -> bool:
    """Return whether a start left its folder here and is over; False where that is unknown."""
    if incarnation in ("", ".", "..") or "/" in incarnation:
        return False
    lock = _lock_of(parent / incarnation)
    if lock is None:
        return False
    os.close(lock)
    return True


def _lock_of(path: Path) -> int | None:
    try:
        return try_lock(path, "exclusive")
    except OSError:
        return None
