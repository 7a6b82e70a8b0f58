"""I/O: perf_event_open(2) by ctypes, counting only. Linux on x86-64 and AArch64."""

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from schemas.level import Level

_SYSCALL = {"x86_64": 298, "aarch64": 241}
_ATTR_BYTES = 128
# read_format: time enabled and running; flags: disabled, inherit, not the kernel, no hypervisor.
_READ_FORMAT = 3
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1, 1 << 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True)
class Event:
    """A counter: its type and number in linux/perf_event.h, its unit and the level it is of."""

    type: int
    config: int
    unit: str = "1"
    level: Level = Level.SYSTEM


def _hardware(config: int) -> Event:
    return Event(0, config, level=Level.HARDWARE)


EVENTS: Mapping[str, Event] = MappingProxyType(
    {
        "task-clock": Event(1, 1, "ns"),
        "cpu-clock": Event(1, 0, "ns"),
        "page-faults": Event(1, 2),
        "context-switches": Event(1, 3),
        "cpu-migrations": Event(1, 4),
        "minor-faults": Event(1, 5),
        "major-faults": Event(1, 6),
        "alignment-faults": Event(1, 7),
        "emulation-faults": Event(1, 8),
        "cgroup-switches": Event(1, 11),
        "cycles": _hardware(0),
        "instructions": _hardware(1),
        "cache-references": _hardware(2),
        "cache-misses": _hardware(3),
        "branch-instructions": _hardware(4),
        "branch-misses": _hardware(5),
        "bus-cycles": _hardware(6),
        "stalled-cycles-frontend": _hardware(7),
        "stalled-cycles-backend": _hardware(8),
        "ref-cycles": _hardware(9),
    }
)
"""Counters of enum perf_hw_id and perf_sw_ids by the names that `perf list` has for them."""
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "faults": "page-faults",
        "cs": "context-switches",
        "migrations": "cpu-migrations",
        "cpu-cycles": "cycles",
        "branches": "branch-instructions",
        "idle-cycles-frontend": "stalled-cycles-frontend",
        "idle-cycles-backend": "stalled-cycles-backend",
    }
)
"""Other names that `perf list` has for the same."""
IN_KERNEL = (EVENTS["context-switches"], EVENTS["cpu-migrations"], EVENTS["cgroup-switches"])
"""They happen in the kernel alone: with it left out they would count as none."""

_CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_OPERATIONS = ("load", "store", "prefetch")
_CACHE_EVENT = re.compile(
    rf"({'|'.join(_CACHES)})-({'|'.join(_OPERATIONS)})(-misses|(?<!prefetch)s|(?<=prefetch)es)"
)
_RAW = re.compile(r"r([0-9a-fA-F]{1,16})")


def event_named(name: str) -> Event:
    """Return a counter by name or alias; raises KeyError.

    Of caches as `LLC-load-misses` (perf_event_open(2), PERF_TYPE_HW_CACHE: cache, operation << 8,
    result << 16), raw ones as `r01c7` (hexadecimal).
    """
    if found := _RAW.fullmatch(name):
        return Event(4, int(found.group(1), 16), level=Level.HARDWARE)
    if found := _CACHE_EVENT.fullmatch(name):
        cache, operation = _CACHES.index(found.group(1)), _OPERATIONS.index(found.group(2))
        is_miss = found.group(3) == "-misses"
        return Event(3, cache | operation << 8 | is_miss << 16, level=Level.HARDWARE)
    return EVENTS[ALIASES.get(name, name)]


def thread_ids() -> list[int]:
    """Return the process's threads."""
    return sorted(int(each.name) for each in _TASKS.iterdir())


def open_event(event: Event, thread: int) -> int:
    """Return a stopped counter of one thread and those it starts later. Raises OSError."""
    number = _SYSCALL.get(platform.machine())
    if number is None or platform.system() != "Linux":
        raise OSError(errno.ENOSYS, f"no perf events on {platform.system()} {platform.machine()}")
    hidden = 0 if event.type == 1 else _NO_KERNEL
    flags = _DISABLED | _INHERIT | hidden | _NO_HYPERVISOR
    try:
        return _opened(number, event, thread, flags)
    except PermissionError:
        if event in IN_KERNEL:
            raise
        return _opened(number, event, thread, flags | _NO_KERNEL)


def _opened(number: int, event: Event, thread: int, flags: int) -> int:
    attributes = bytearray(_ATTR_BYTES)
    struct.pack_into("=IIQ", attributes, 0, event.type, _ATTR_BYTES, event.config)
    struct.pack_into("=QQ", attributes, 32, _READ_FORMAT, flags)
    system = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * _ATTR_BYTES).from_buffer(attributes)
    fd = system.syscall(number, buffer, thread, -1, -1, _CLOSE_ON_EXEC)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(fd)


def switch(fd: int, *, on: bool) -> None:
    """Count, or stop counting; it is not reset. Raises OSError."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.ioctl(fd, ctypes.c_ulong(_ENABLE if on else _DISABLE), 0) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def reset(fd: int) -> None:
    """Begin anew from 0."""
    ctypes.CDLL(None).ioctl(fd, ctypes.c_ulong(_RESET), 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one counter has: its count, how long its thread ran, and how long it was counted."""

    count: int
    enabled_ns: int
    running_ns: int

    @property
    def scaled(self) -> float:
        """The count over all of the thread's time, as perf-stat(1) scales; 0 where none was."""
        return self.count * self.enabled_ns / self.running_ns if self.running_ns else 0.0


def read_event(fd: int) -> Reading:
    """Return what a counter has. Raises OSError."""
    return Reading(*struct.unpack("=QQQ", os.read(fd, 24)))


def refusal(error: OSError, event: Event) -> str:
    """Return in words why a counter could not be opened."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return _not_allowed(event)
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP) and event.type != 1:
        return "this processor shows no such counter; a virtual machine has what its host passes on"
    if error.errno == errno.EINVAL and event.type != 1:
        return "this processor does not count it"
    return f"perf_event_open: {error.strerror or error}"


def _not_allowed(event: Event) -> str:
    told = _PARANOID.read_text().strip() if _PARANOID.exists() else "?"
    least = 1 if event in IN_KERNEL else 2
    if told.lstrip("-").isdigit() and int(told) <= least:
        # That would do: a container's seccomp filter refuses the call whatever it says.
        return (
            f"not allowed by this container (seccomp), or for want of CAP_PERFMON: "
            f"kernel.perf_event_paranoid is {told}, which would do"
        )
    where = "it happens in the kernel, " if event in IN_KERNEL else ""
    return (
        f"not allowed: {where}kernel.perf_event_paranoid is {told}, "
        f"{least} or less is needed, or CAP_PERFMON"
    )
