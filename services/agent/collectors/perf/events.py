"""I/O: perf_event_open(2) by ctypes, for counting only. Linux on x86-64 and AArch64."""

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
    """A counter: its type and number in linux/perf_event.h, its unit and its level."""

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
"""Counters of enum perf_hw_id and perf_sw_ids by their names in `perf list`."""
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
"""Other names of the same counters in `perf list`."""
IN_KERNEL = (EVENTS["context-switches"], EVENTS["cpu-migrations"], EVENTS["cgroup-switches"])
"""Events that happen only in the kernel: without counting it they would be 0."""

_CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_OPERATIONS = ("load", "store", "prefetch")
_CACHE_EVENT = re.compile(
    rf"({'|'.join(_CACHES)})-({'|'.join(_OPERATIONS)})(-misses|(?<!prefetch)s|(?<=prefetch)es)"
)
_RAW = re.compile(r"r([0-9a-fA-F]{1,16})")


def event_named(name: str) -> Event:
    """Return a counter by name or alias. Raises KeyError.

    Events of caches are named as `LLC-load-misses` (perf_event_open(2), PERF_TYPE_HW_CACHE: cache,
    operation << 8, result << 16), raw events as `r01c7` (hexadecimal).
    """
    if match := _RAW.fullmatch(name):
        return Event(4, int(match.group(1), 16), level=Level.HARDWARE)
    if match := _CACHE_EVENT.fullmatch(name):
        cache, operation = _CACHES.index(match.group(1)), _OPERATIONS.index(match.group(2))
        is_miss = match.group(3) == "-misses"
        return Event(3, cache | operation << 8 | is_miss << 16, level=Level.HARDWARE)
    return EVENTS[ALIASES.get(name, name)]


def thread_ids() -> list[int]:
    """Return the ids of the process's threads."""
    return sorted(int(folder.name) for folder in _TASKS.iterdir())


def open_event(event: Event, thread: int) -> int:
    """Return the descriptor of a stopped counter of a thread and the threads that it starts.

    Raises OSError.
    """
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
    """Start or stop a counter, without resetting it. Raises OSError."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.ioctl(fd, ctypes.c_ulong(_ENABLE if on else _DISABLE), 0) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def reset(fd: int) -> None:
    """Set a counter to 0."""
    ctypes.CDLL(None).ioctl(fd, ctypes.c_ulong(_RESET), 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """One counter: its count, how long its thread ran, and how long of that it was counted."""

    count: int
    enabled_ns: int
    running_ns: int

    @property
    def scaled(self) -> float:
        """The count scaled to all of the thread's time, as in perf-stat(1); 0 without any."""
        return self.count * self.enabled_ns / self.running_ns if self.running_ns else 0.0


def read_event(fd: int) -> Reading:
    """Return the reading of a counter. Raises OSError."""
    return Reading(*struct.unpack("=QQQ", os.read(fd, 24)))


def refusal(error: OSError, event: Event) -> str:
    """Return the reason why a counter could not be opened."""
    if error.errno in (errno.EACCES, errno.EPERM):
        paranoid = _PARANOID.read_text().strip() if _PARANOID.exists() else "?"
        limit = 1 if event in IN_KERNEL else 2
        if paranoid.lstrip("-").isdigit() and int(paranoid) <= limit:
            # A container's seccomp filter refuses the call whatever the setting is.
            return (
                "not allowed by this container (seccomp) or without CAP_PERFMON: "
                f"kernel.perf_event_paranoid is {paranoid}, which is enough"
            )
        where = "it happens in the kernel, " if event in IN_KERNEL else ""
        return (
            f"not allowed: {where}kernel.perf_event_paranoid is {paranoid}, "
            f"{limit} or less is needed, or CAP_PERFMON"
        )
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP) and event.type != 1:
        return "this processor has no such counter; a virtual machine has what its host exposes"
    if error.errno == errno.EINVAL and event.type != 1:
        return "this processor can't count it"
    return f"perf_event_open: {error.strerror or error}"
