"""Removes what models wrote, however deep they nested it and whatever modes they gave it (I/O)."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A place in the file system, whatever its mode; of Linux.
_PLACE = _FOLDER | getattr(os, "O_PATH", 0)


def remove_tree(path: Path) -> bool:
    """Remove the folder at `path` with all in it; tell whether it is gone. Raises nothing.

    `shutil.rmtree` goes down by recursion, which thousands of nested folders end. Here each folder
    comes up to the top before its own turn. No link is followed. What cannot be removed stays.
    """
    with suppress(OSError):
        top = os.open(path, _FOLDER)
        try:
            while (names := _names_in(top)) and sum(_take_down(name, top) for name in names):
                pass
        finally:
            os.close(top)
        path.rmdir()
    return not path.exists()


def _take_down(name: str, top: int) -> bool:
    """Remove an entry of the folder `top`, whose own folders come there; tell whether it is gone.

    `top` is a descriptor.
    """
    try:
        if _unlinked(name, top):
            return True
        _unlock(name, top)
        folder = os.open(name, _FOLDER, dir_fd=top)
        try:
            for inner in _names_in(folder):
                if not _unlinked(inner, folder):
                    _unlock(inner, folder)
                    os.rename(inner, secrets.token_hex(8), src_dir_fd=folder, dst_dir_fd=top)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    return True


def _names_in(folder: int) -> list[str]:
    return os.listdir(folder)


def _unlinked(name: str, folder: int) -> bool:
    """Remove what is no folder; tell whether it was none. Raises OSError."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _unlock(name: str, folder: int) -> None:
    """Let the owner of the folder `name` list, change and move it. Raises OSError."""
    place = os.open(name, _PLACE, dir_fd=folder)
    try:
        if hasattr(os, "O_PATH"):
            Path(f"/proc/self/fd/{place}").chmod(0o700)
        else:
            os.fchmod(place, 0o700)
    finally:
        os.close(place)
