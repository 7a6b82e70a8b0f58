"""Takes rights away from a thread and all that it starts, for good (I/O).

Landlock (Linux 5.13) restricts also root. Names of files and folders stay readable here, contents
do not. Other processes cannot be traced, signalled or reached by abstract sockets. A process of
root gives up its capabilities as well, except those that profiling needs, and may become another
user.

Source: https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import errno
import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH, _NET_PORT = 1, 1, 2
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_DUMPABLE = 38, 24, 4
_PR_SET_SECUREBITS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 28, 47, 2
_NO_SETUID_FIXUP = 0b1100  # and this is locked
_CAPABILITY_VERSION = 0x20080522

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_IOCTL_DEV = 1 << 15
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | _IOCTL_DEV
_SCOPES = 0b11  # abstract sockets and signals of others, from version 6 on
_SCOPES_FROM = 6
_BIND_TCP = 1
_PORTS_FROM = 4


class Capability(IntEnum):
    """The capabilities that a worker of root may need; numbers of <linux/capability.h>."""

    CHOWN = 0
    DAC_OVERRIDE = 1
    DAC_READ_SEARCH = 2
    KILL = 5
    SETGID = 6
    SETUID = 7
    SETPCAP = 8
    IPC_LOCK = 14
    SYS_ADMIN = 21
    SYS_NICE = 23


_LAST_CAPABILITY = 63


@dataclass(frozen=True, slots=True)
class Reach:
    """The files and folders that a process may read, and those that it may write.

    It may listen on the TCP `ports`, from version 4 on (Linux 6.7); 0 is one that the kernel picks.
    """

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    ports: tuple[int, ...] = (0,)


def landlock_version() -> int:
    """Return the version of Landlock's interface in this kernel; 0: it has none."""
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, int(version))


def confine(reach: Reach, allowed: Collection[Capability]) -> None:
    """Confine this thread, and all that it starts, to `reach`. Raises OSError.

    Where it is root's, it gives up all capabilities but those `allowed`.
    """
    version = landlock_version()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    rights = _RIGHTS_BY_ABI[max(least for least in _RIGHTS_BY_ABI if least <= version)]
    on_ports = _BIND_TCP if version >= _PORTS_FROM else 0
    scopes = _SCOPES if version >= _SCOPES_FROM else 0
    attributes = (ctypes.c_uint64 * 3)(rights, on_ports, scopes)
    size_bytes = 24 if scopes else 16 if on_ports else 8
    libc = _libc()
    ruleset = _checked(
        libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size_bytes), ctypes.c_uint32(0))
    )
    try:
        _allow(ruleset, Path("/"), _READ_DIR)
        for path in reach.readable:
            _allow(ruleset, path, rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in reach.writable:
            _allow(ruleset, path, rights)
        for port in reach.ports if on_ports else ():
            rule = ctypes.byref((ctypes.c_uint64 * 2)(on_ports, port))
            _checked(libc.syscall(_ADD_RULE, ruleset, _NET_PORT, rule, ctypes.c_uint32(0)))
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)
    if os.geteuid() == 0:
        drop_capabilities(allowed)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Allow `rights` beneath a path; a path that does not exist needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rule = _PathBeneath(rights if is_folder else rights & _ON_FILES, descriptor)
        arguments = (ruleset, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
        _checked(_libc().syscall(_ADD_RULE, *arguments))
    finally:
        os.close(descriptor)


def has_capabilities(wanted: Iterable[Capability]) -> bool:
    """Tell whether this thread has all capabilities that are `wanted`."""
    _, sets = _capabilities()
    effective = sets[0] | sets[3] << 32
    return all(effective >> capability & 1 for capability in wanted)


def drop_capabilities(retained: Collection[int]) -> None:
    """Give up every capability but those `retained`, in this thread and in all that it starts."""
    _lower_bound(retained)
    _retain(retained)


def become_user(uid: int, groups: Iterable[int], retained: Collection[int]) -> None:
    """Make this process of root one of the user and the group `uid`, also in further `groups`.

    It and the programs that it starts keep the capabilities `retained`. Raises OSError.
    """
    libc = _libc()
    _lower_bound(retained)
    # A change of user would clear them, and access(2) would ignore them: XLA asks it about its
    # folder for temporary files, which lies in root's.
    _checked(libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0))
    os.setgroups([*groups])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _retain(retained)
    for capability in retained:
        libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0)  # EPERM without it
    # After a change of user, the files of /proc/self are root's until this is set again.
    _checked(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))


def _lower_bound(retained: Collection[int]) -> None:
    """Keep programs that are started from now on from having more capabilities than `retained`."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in retained:
            _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # EINVAL beyond the kernel's last


def _retain(retained: Collection[int]) -> None:
    """Have the capabilities `retained` of those that are permitted, and give up all others."""
    header, sets = _capabilities()
    mask = sum(1 << capability for capability in retained)
    for half in (0, 1):
        permitted = sets[3 * half + 1] & (mask >> (32 * half)) & 0xFFFFFFFF
        sets[3 * half : 3 * half + 3] = [permitted] * 3
    _checked(_libc().capset(header, sets))


def _capabilities() -> tuple["ctypes.Array[ctypes.c_uint32]", "ctypes.Array[ctypes.c_uint32]"]:
    """Return what capset(2) takes: a header, and effective, permitted, inheritable bits.

    The three are those of the low half, then of the high half.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    _checked(_libc().capget(header, sets))
    return header, sets


def refuse_tracers() -> None:
    """Keep processes with equal rights from this one's memory, environment and view of files.

    This holds until the process starts another program in its place. Raises OSError.
    """
    _checked(_libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
