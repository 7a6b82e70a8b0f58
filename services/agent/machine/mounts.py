"""Hides files from a thread of root and all that it starts, where the kernel has no Landlock (I/O).

The thread gets mounts of its own: folders are covered by empty ones, and everything but one folder
is read-only. It then gives up the capability to change that.

Source: https://man7.org/linux/man-pages/man7/mount_namespaces.7.html
"""

import ctypes
import errno
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from services.agent.machine.landlock import Capability, drop_capabilities, refuse_tracers

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_KEPT_FLAGS = {"nosuid": _MS_NOSUID, "nodev": _MS_NODEV, "noexec": _MS_NOEXEC}
_ESCAPED = re.compile(r"\\([0-7]{3})")
_ROOT = Path("/")
#: refused by rights or AppArmor; unknown to the kernel, or `/` is no mount (chroot)
_NOT_HERE = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL)


def hide(
    hidden: Iterable[Path], shown: Iterable[Path], writable: Path, allowed: Collection[Capability]
) -> bool:
    """Hide `hidden` paths, except those `shown`, and make all read-only but the folder `writable`.

    It is for a process of root, which gives up all capabilities but those `allowed`. A hidden path
    within a shown one is hidden. Paths that do not exist are left out. Does nothing and returns
    False where root may not mount. Raises OSError where only a part could be hidden.
    """
    try:
        _checked(_libc().unshare(_CLONE_NEWNS))
        _mount(None, _ROOT, _MS_REC | _MS_PRIVATE)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        return False
    _mount(str(writable), writable, _MS_BIND)
    visible = {path.resolve() for path in (*shown, writable) if path.exists()}
    # The shorter ones first: what is shown within them may be hidden by a longer one.
    for path in sorted({path.resolve() for path in hidden} - visible, key=lambda path: path.parts):
        within = {inner for inner in visible if inner.is_relative_to(path)}
        if path.is_dir():
            _cover(path, [inner for inner in within if not within.intersection(inner.parents)])
        elif path.exists():
            _mount("/dev/null", path, _MS_BIND)
    _make_read_only(writable.resolve())
    drop_capabilities({*allowed} - {Capability.SYS_ADMIN})
    # Other workers have the same user and rights, and would see its files in /proc/PID/root.
    refuse_tracers()
    return True


def _cover(folder: Path, shown: Iterable[Path]) -> None:
    """Cover a folder by an empty one that has only what is `shown` of it."""
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in shown}
    try:
        _mount("tmpfs", folder, _MS_NOSUID | _MS_NODEV, "tmpfs", b"mode=755,size=64k")
        for path, descriptor in opened.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            source = f"/proc/self/fd/{descriptor}"
            if os.path.isdir(source):  # noqa: PTH112 (no path of a file)
                path.mkdir()
            else:
                path.touch()
            _mount(source, path, _MS_BIND | _MS_REC)
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def _make_read_only(writable: Path) -> None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        escaped, options = line.split(" ")[4:6]
        place = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), escaped))
        if place == writable:
            continue
        flags = sum(_KEPT_FLAGS.get(option, 0) for option in options.split(","))
        try:
            _mount(None, place, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)
        except OSError as error:
            # Another mount covers it: nobody reaches it here.
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise


def _mount(
    source: str | None, place: Path, flags: int, kind: str | None = None, data: bytes | None = None
) -> None:
    names = (source and source.encode(), bytes(place), kind and kind.encode())
    _checked(_libc().mount(*names, ctypes.c_ulong(flags), data), str(place))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, place: str | None = None) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)
