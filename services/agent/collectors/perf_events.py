"""I/O: perf_event_open(2) by ctypes, counting only. Linux on x86-64 and AArch64."""

import ctypes
import errno
import os
import platform
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


EVENTS: Mapping[str, Event] = MappingProxyType(
    {
        "task-clock": Event(1, 1, "ns"),
        "page-faults": Event(1, 2),
        "context-switches": Event(1, 3),
        "cpu-migrations": Event(1, 4),
        "minor-faults": Event(1, 5),
        "major-faults": Event(1, 6),
        "cycles": Event(0, 0, level=Level.HARDWARE),
        "instructions": Event(0, 1, level=Level.HARDWARE),
        "cache-references": Event(0, 2, level=Level.HARDWARE),
        "cache-misses": Event(0, 3, level=Level.HARDWARE),
        "branch-instructions": Event(0, 4, level=Level.HARDWARE),
        "branch-misses": Event(0, 5, level=Level.HARDWARE),
    }
)
"""Counters by the names that `perf list` has for them."""


def event_named(name: str) -> Event:
    """Return a counter by name, or a raw one as `r01c7` (hexadecimal). Raises KeyError."""
    if name.startswith("r") and all(digit in "0123456789abcdef" for digit in name[1:]):
        return Event(4, int(name[1:], 16), level=Level.HARDWARE)
    return EVENTS[name]


def thread_ids() -> list[int]:
    """Return the process's threads."""
    return sorted(int(each.name) for each in _TASKS.iterdir())


def open_event(event: Event, thread: int) -> int:
    """Return a stopped counter of one thread and those it starts later. Raises OSError."""
    number = _SYSCALL.get(platform.machine())
    if number is None or platform.system() != "Linux":
        raise OSError(errno.ENOSYS, f"no perf events on {platform.system()} {platform.machine()}")
    # Software events happen in the kernel: with it left out, switches would count as none.
    hidden = 0 if event.type == 1 else _NO_KERNEL
    flags = _DISABLED | _INHERIT | hidden | _NO_HYPERVISOR
    try:
        return _opened(number, event, thread, flags)
    except PermissionError:
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


def read_event(fd: int) -> tuple[float, float]:
    """Return a counter's value, and the share of its time that it really counted.

    Where counters took turns the value is scaled by time enabled over time running, as
    perf-stat(1) does. Raises OSError.
    """
    value, enabled, running = struct.unpack("=QQQ", os.read(fd, 24))
    if not running:
        return 0.0, 0.0
    return value * enabled / running, running / enabled


def refusal(error: OSError, event: Event) -> str:
    """Return in words why a counter could not be opened."""
    if error.errno in (errno.EACCES, errno.EPERM):
        level = _PARANOID.read_text().strip() if _PARANOID.exists() else "?"
        return f"not allowed: kernel.perf_event_paranoid is {level}, 2 or less is needed"
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP) and event.type != 1:
        return "this processor shows no counters; a virtual machine has what its host passes on"
    return f"perf_event_open: {error.strerror or error}"
