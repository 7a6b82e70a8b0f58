"""Makes a worker of root a process of a user that nobody else has, in its sandbox (I/O).

That user writes only the worker's scratch folder, signals no process of another user, and no
service takes it for root at the other end of a socket. It reads what everybody may read. Often more
is needed: Python, models or the scratch folder lie in a folder of root's alone, such as /root. Then
it keeps the capability to read every file, of which Landlock leaves it the session's and programs.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from services.agent.machine.landlock import (
    Capability,
    become_user,
    drop_capabilities,
    has_capabilities,
)

CHANGING_USER = frozenset(
    {
        Capability.CHOWN,
        Capability.DAC_READ_SEARCH,
        Capability.SETGID,
        Capability.SETPCAP,
        Capability.SETUID,
    }
)
"""What a process keeps until it becomes another user."""

# With these, its host ends it and removes what it wrote.
_OF_HOST = frozenset({Capability.DAC_OVERRIDE, Capability.KILL})
_READING = frozenset({Capability.DAC_READ_SEARCH})
# Beyond the ids that systemd gives to containers and SSSD to users of a directory.
_FIRST_UID = 0x78000000
_NAME = "mlscope-worker"
_PACKAGES = ("site-packages", "dist-packages")
_MOST_CHECKED = 2000


@dataclass(frozen=True, slots=True)
class Needs:
    """What a worker uses: the folders of `programs`, further `files` and folders, and `devices`.

    It writes into the folder `scratch`.
    """

    programs: Sequence[Path]
    files: Sequence[Path]
    devices: Sequence[Path]
    scratch: Path


def can_change_user() -> bool:
    """Tell whether this process can become another user, and its host can end it afterwards."""
    return os.geteuid() == 0 and has_capabilities((CHANGING_USER | _OF_HOST) - _READING)


def become_own_user(
    needs: Needs, retained: Iterable[Capability], *, may_read_all: bool
) -> tuple[str, ...]:
    """Become a user of this process alone, who owns the scratch folder.

    It keeps the capabilities `retained`, except those over users and files. Where it `may_read_all`
    and something that it `needs` is closed to other users than root, it keeps the capability to
    read all files. Called with the capabilities `CHANGING_USER`. Where this process has to stay
    root, it keeps those `retained`, and a note says why. Raises OSError.
    """
    can_read_all = may_read_all and has_capabilities(_READING)
    uid = _FIRST_UID + os.getpid()
    try:
        check_programs(needs.programs)
        groups = groups_of(needs.devices)
        closed = why_closed(needs)
        if closed and not can_read_all:
            raise PermissionError(closed)
        for path in (*needs.scratch.iterdir(), needs.scratch):
            os.chown(path, uid, uid)
    except OSError as error:
        drop_capabilities({*retained})
        return (f"the model ran as root: {error}",)
    own = {*retained} - CHANGING_USER - _OF_HOST
    become_user(uid, groups, own | _READING if closed else own)
    # Libraries ask for the user's name, and there is no entry of this one.
    os.environ |= dict.fromkeys(("LOGNAME", "USER"), _NAME)
    return ()


def check_programs(folders: Iterable[Path]) -> None:
    """Raise PermissionError where Python, or a package in one of its `folders`, is for root alone.

    The capability to read every file lets nobody run a program that is root's alone.
    """
    packages = (path for folder in folders if folder.name in _PACKAGES for path in folder.glob("*"))
    for path in (Path(sys.executable), *packages):
        if not _is_open(path):
            raise PermissionError(f"{path} is closed to other users")


def groups_of(devices: Iterable[Path]) -> Sequence[int]:
    """Return the groups in which another user may use `devices`. Raises OSError."""
    groups = set()
    for device in devices:
        state = device.stat()
        if stat.S_ISDIR(state.st_mode) or state.st_mode & 0o006 == 0o006:
            continue
        # The group of root may use far more than this device.
        if state.st_mode & 0o060 != 0o060 or not state.st_gid:
            raise PermissionError(f"only root may use {device}")
        groups.add(state.st_gid)
    return sorted(groups)


def why_closed(needs: Needs) -> str:
    """Return why other users may be unable to reach or read what a worker `needs`, '' if they can.

    Where there are very many files, only the first are looked at: more would take too long.
    """
    read = (*needs.programs, *needs.files)
    above = {
        folder
        for path in (*read, needs.scratch)
        for place in (path.absolute(), path.resolve())
        for folder in place.parents
    }
    checked = chain(
        ((folder, bool(_mode_of(folder) & stat.S_IXOTH)) for folder in sorted(above)),
        ((path, _is_open(path)) for path in read),
        ((path, _is_open(path)) for folder in needs.files for path in _within(folder)),
    )
    for number, (path, is_open) in enumerate(checked):
        if number >= _MOST_CHECKED:
            return f"there are more than {_MOST_CHECKED} files, and {path} may be closed to others"
        if not is_open:
            return f"{path} is closed to other users"
    return ""


def _within(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def _is_open(path: Path) -> bool:
    """Tell whether others may read and run what its owner may."""
    mode = _mode_of(path)
    rights = mode >> 6 & 0o5
    return mode & rights == rights


def _mode_of(path: Path) -> int:
    """Return the mode of a path; that of an open one where there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0o755
    except OSError:
        return 0o700
