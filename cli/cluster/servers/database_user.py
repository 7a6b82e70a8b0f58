"""Whom PostgreSQL runs as where we are root, and how its files become that user's.

PostgreSQL refuses to run as root. As `nobody` it would share its files and processes with all that
runs as `nobody` on this machine. So each data folder gets a user of its own: a number that no entry
and no process has, with a group of the same number. The owner of PGDATA is the only record of it.
"""

import grp
import os
import pwd
import re
import secrets
import shlex
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cli.cluster.errors import DatabaseFileShared, DatabaseHeld, DatabasePlanted
from mlscope.texts.printable import printable

OWN_USERS = range(0x79000000, 0x7A000000)
"""Beyond the numbers of systemd, SSSD, and the agents' workers."""

_UNPRIVILEGED = "nobody"
_USUAL_NUMBER = 65534
_LENT = (Path("/etc/subuid"), Path("/etc/subgid"))
_SUBORDINATE = re.compile(r"^[^:#]+:(\d+):(\d+)$", re.MULTILINE)
_USERS_OF_PROCESS = re.compile(r"^Uid:\t(.+)$", re.MULTILINE)
_HELD_AT_MOST_S = 30.0
_POLL_S = 0.1


def unprivileged_user() -> tuple[int, int] | None:
    """Return uid and gid of `nobody` when we are root, else None."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        return _USUAL_NUMBER, _USUAL_NUMBER
    return entry.pw_uid, entry.pw_gid


def user_of(data: Path) -> tuple[int, int] | None:
    """Return uid and gid that PostgreSQL gets for its folder `data`; None: our own.

    They are new where `data` does not exist, or is not yet such a user's. Where this machine lacks
    these numbers they are those of `nobody`: see `shared_user_caveat`.
    """
    if os.geteuid() != 0 or not _has_own_users():
        return unprivileged_user()
    with suppress(FileNotFoundError):
        owner = data.stat().st_uid
        if owner in OWN_USERS:
            return owner, owner
    while _is_taken(number := secrets.choice(OWN_USERS)):
        pass
    return number, number


def shared_user_caveat() -> str:
    """Say what follows from a database that runs as `nobody`; '' where it does not."""
    if os.geteuid() != 0 or _has_own_users():
        return ""
    return (
        "PostgreSQL runs as `nobody`, since this container or system lacks user "
        f"{OWN_USERS[0]} and above: all that runs as `nobody` here can read and change the database"
    )


def hand_over(data: Path, user: tuple[int, int]) -> None:
    """Give the files in PostgreSQL's folder `data` that are `nobody`'s to `user` (uid, gid).

    It does nothing where they have been given; one that was killed is finished by the next. Raises
    `DatabaseHeld` while a server or another process of `nobody` uses them, and `DatabasePlanted` or
    `DatabaseFileShared` at a file that root alone may decide about.
    """
    former, state = unprivileged_user(), data.stat()
    if former is None or former == user or (state.st_uid, state.st_gid) == user:
        return
    if state.st_uid not in (former[0], user[0]):
        return
    deadline = time.monotonic() + _HELD_AT_MOST_S
    # A server whose supervisor was killed may still be shutting down.
    while held := list(_holders(data, former[0])):
        if time.monotonic() > deadline:
            raise DatabaseHeld(data, held)
        time.sleep(_POLL_S)
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Its group comes last, and says that all has been given.
        os.fchown(folder, user[0], former[1])
        _give(folder, data, former, user)
        # Who had one open before could still write it.
        if held := list(_holders(data, former[0])):
            raise DatabaseHeld(data, held)
        os.fchown(folder, *user)
    finally:
        os.close(folder)


def _give(folder: int, path: Path, former: tuple[int, int], user: tuple[int, int]) -> None:
    """Give to `user` what the `former` user has in an open `folder`, at `path` (both uid and gid).

    That is its new owner's already: so no process of the former one changes meanwhile what is in
    it, also where it has the folder open.
    """
    if stat.S_IMODE(os.fstat(folder).st_mode) != 0o700:
        os.fchmod(folder, 0o700)
    for name in os.listdir(folder):
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(state.st_mode) and state.st_uid in (former[0], user[0]):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                os.fchown(inner, *user)
                _give(inner, path / name, former, user)
            finally:
                os.close(inner)
        elif state.st_uid == former[0]:
            if stat.S_ISLNK(state.st_mode):
                raise _planted(path / name, former, user)
            if state.st_nlink > 1:
                raise _shared(path / name)
            os.chown(name, *user, dir_fd=folder, follow_symlinks=False)


def _planted(link: Path, former: tuple[int, int], user: tuple[int, int]) -> DatabasePlanted:
    """Return the error about a symbolic link: PostgreSQL makes one for each tablespace.

    `link` is the `former` user's; its command gives it to `user` (both uid and gid).
    """
    target = Path(os.path.realpath(link))
    return DatabasePlanted(link, target, _to_keep(link, target, former, user))


def _to_keep(link: Path, target: Path, former: tuple[int, int], user: tuple[int, int]) -> str:
    """Say how `user` gets a `link` of the `former` user, and what that has at its `target`.

    The former user must not be able to write there afterwards, nor to put something else there.
    """
    try:
        state, replaced_in = target.stat(), _replaced_in(target, former)
    except OSError:
        return "it leads to nothing: mount what it leads to, or remove the link, and start again"
    if replaced_in is not None:
        return (
            "move what it leads to first, since `nobody` can replace it in "
            f"{printable(str(replaced_in))}: move it to where all folders above are root's, "
            "make the link again, `chown -h nobody` it, and start again"
        )
    owner, own_it = f"{user[0]}:{user[1]}", []
    if state.st_uid in (former[0], user[0]):
        if state.st_nlink > 1 and not stat.S_ISDIR(state.st_mode):
            return "it leads to a file with further names: put a copy in its place, and start again"
        # A folder is closed before what is in it is looked at: `{} +` would come too late.
        close = ["!", "-type", "l", "-exec", "chmod", "go=", "{}", ";"]
        # PostgreSQL makes no links in a tablespace, but would follow one: end there.
        end_at_links = ["-type", "l", "-print", "-exec", "false", "{}", "+"]
        find_its_own = ["find", str(target), "-user", str(user[0])]
        own_it = [
            ["chown", "-R", f"--from={former[0]}", owner, str(target)],
            [*find_its_own, *close],
            [*find_its_own, *end_at_links],
        ]
    own_it += [["ln", "-sfnT", str(target), str(link)], ["chown", "-h", owner, str(link)]]
    return _after("keep it (a tablespace holds rows), and", own_it)


def _replaced_in(path: Path, user: tuple[int, int]) -> Path | None:
    """Return a folder above `path` in which `user` (uid, gid) can replace what is on the way."""
    for entry, folder in zip((path, *path.parents), path.parents, strict=False):
        state = folder.stat()
        group_writes = state.st_gid == user[1] and state.st_mode & stat.S_IWGRP
        writes = group_writes or state.st_mode & stat.S_IWOTH
        is_kept = state.st_mode & stat.S_ISVTX and entry.stat().st_uid != user[0]
        if state.st_uid == user[0] or (writes and not is_kept):
            return folder
    return None


def _shared(path: Path) -> DatabaseFileShared:
    """Return the error about a file with further names, as a backup by `cp --link` makes them.

    Its command copies the file at `path`, whatever `nobody` has put where the copy is made.
    """
    copied = f"{path}.copied"
    copy_it = [
        ["cp", "-pT", "--remove-destination", str(path), copied],
        ["mv", "-T", copied, str(path)],
    ]
    find_names = _shell_line([["find", "/", "-samefile", str(path)]])
    return DatabaseFileShared(path, find_names, _after("do not remove it, but", copy_it))


def _after(what: str, commands: Iterable[Sequence[str]]) -> str:
    """Say to do `what`, and to start again after `commands`, if they can be printed."""
    if line := _shell_line(commands):
        return f"{what} start again after: {line}"
    return "a name with control characters: remove it or rename it first"


def _shell_line(commands: Iterable[Sequence[str]]) -> str:
    """Return `commands` as a line for a shell; '' where it would not be printed as it is."""
    line = " && ".join(map(shlex.join, commands))
    return line if printable(line) == line else ""


def _holders(data: Path, uid: int) -> Iterator[int]:
    """Yield the ids of the processes of a user that run in `data`, or have files of it open.

    Where root may not look at what others have open, only servers of `data` are found.
    """
    place = str(data.resolve())
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            users = _USERS_OF_PROCESS.search((process / "status").read_text("ascii", "replace"))
            if users is None or str(uid) not in users[1].split():
                continue
            used = (process / "cmdline").read_text("utf-8", "replace").split("\0")
            with suppress(OSError):
                for link in (process / "cwd", *(process / "fd").iterdir()):
                    with suppress(FileNotFoundError):
                        used.append(str(link.readlink()))
            if any(name == place or name.startswith(f"{place}/") for name in used):
                yield int(process.name)


def _has_own_users() -> bool:
    """Tell whether this system knows all of `OWN_USERS`: a container may have fewer users."""
    try:
        texts = [Path(f"/proc/self/{kind}_map").read_text("ascii") for kind in ("uid", "gid")]
    except OSError:  # not Linux
        return False
    return all(any(map(_covers_own_users, text.splitlines())) for text in texts)


def _covers_own_users(line: str) -> bool:
    first, _, count = map(int, line.split())
    return first <= OWN_USERS.start and OWN_USERS.stop <= first + count


def _is_taken(number: int) -> bool:
    """Tell whether a number is that of a user, a group or a process, or lent to some user."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look_up(number)
            return True
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if number in (process.stat().st_uid, process.stat().st_gid):
                return True
    for path in _LENT:
        with suppress(OSError):
            lent = _SUBORDINATE.findall(path.read_text("utf-8", "replace"))
            if any(int(first) <= number < int(first) + int(count) for first, count in lent):
                return True
    return False
