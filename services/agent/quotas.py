"""What of its machine a process may use: CPU affinity and control groups, versions 1 and 2.

Files and their meaning: https://docs.kernel.org/admin-guide/cgroup-v2.html (`cpu.max`,
`memory.max`) and https://docs.kernel.org/admin-guide/cgroup-v1/ (`cpu.cfs_quota_us`,
`memory.limit_in_bytes`). A group's limit holds for all below it, so the least on the way up counts.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

GROUPS_OF = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def usable_cores(groups: Path = GROUPS_OF, mount: Path = MOUNT) -> int:
    """Return how many cores this process may keep busy, at least 1; part of a core counts not."""
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quotas = [quota for folder in _folders(groups, mount, "cpu") if (quota := _quota(folder)) > 0]
    return max(1, int(min([most or 1, *quotas])))


def usable_memory_bytes(host_bytes: int, groups: Path = GROUPS_OF, mount: Path = MOUNT) -> int:
    """Return how much memory this process may use, of what the host has (0: unknown)."""
    limits = [
        limit
        for folder in _folders(groups, mount, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(folder / name)) > 0
    ]
    return min([host_bytes, *limits]) if host_bytes else min(limits, default=0)


def _folders(groups: Path, mount: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the groups that a controller limits us by, up to its mount."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        root = _root(mount, controllers)
        # A container may see the host's path, which is not below its own mount: skip what is not.
        own = PurePosixPath(path.lstrip("/"))
        if ".." not in own.parts:
            yield from (root / each for each in (own, *own.parents))


def _root(mount: Path, controllers: str) -> Path:
    """Return where a hierarchy is mounted; version 2, of no named controllers, at the top."""
    if not controllers:
        return mount
    together = mount / controllers
    if together.is_dir():
        return together
    found = (mount / each for each in controllers.split(",") if (mount / each).is_dir())
    return next(found, together)


def _quota(folder: Path) -> float:
    """Return a group's cores, 0 for no limit."""
    quota, period = (*_words(folder / "cpu.max"), "", "")[:2]
    if not quota:
        quota = next(iter(_words(folder / "cpu.cfs_quota_us")), "")
        period = next(iter(_words(folder / "cpu.cfs_period_us")), "")
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return 0.0
    return int(quota) / int(period)


def _number(path: Path) -> int:
    """Return the number a file holds, 0 for none: `max`, or no such file."""
    text = next(iter(_words(path)), "")
    return int(text) if text.isdecimal() else 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
