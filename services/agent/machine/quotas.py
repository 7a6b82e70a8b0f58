"""The cores and memory that a process may use: CPU affinity and control groups (versions 1, 2).

Files and their meaning: https://docs.kernel.org/admin-guide/cgroup-v2.html (`cpu.max`,
`memory.max`) and https://docs.kernel.org/admin-guide/cgroup-v1/ (`cpu.cfs_quota_us`,
`memory.limit_in_bytes`). A group's limit holds for all groups below it: the least one counts.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from services.agent.machine.kernel_files import text_of

GROUPS_OF = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")
_MEMORY_FILES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""The files with a group's limit and use of memory, in versions 2 and 1."""


def usable_cores(groups: Path = GROUPS_OF, mount: Path = MOUNT) -> int:
    """Return how many whole cores this process may keep busy, at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quotas = [quota for folder in _folders(groups, mount, "cpu") if (quota := _quota(folder)) > 0]
    return max(1, int(min([affinity or 1, *quotas])))


def usable_memory_bytes(host_bytes: int, groups: Path = GROUPS_OF, mount: Path = MOUNT) -> int:
    """Return how much memory this process may use, of the `host_bytes` of the host (0: unknown).

    `groups` is the file that names the process's groups, `mount` where their folders are.
    """
    limits = [
        int(text)
        for folder in _folders(groups, mount, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := text_of(folder / name)).isdecimal() and int(text)  # `max`: there is no limit
    ]
    return min([host_bytes, *limits]) if host_bytes else min(limits, default=0)


def available_memory_bytes(
    meminfo: Path = Path("/proc/meminfo"), groups: Path = GROUPS_OF, mount: Path = MOUNT
) -> int:
    """Return how much more memory this process may use without swapping; 0 where it is unknown.

    The host's free memory is in `meminfo`; `groups` and `mount` are as in `usable_memory_bytes`.
    Files that a group has read count as free: the kernel drops them.
    """
    fields = text_of(meminfo).split()
    free = (
        [int(fields[fields.index("MemAvailable:") + 1]) << 10] if "MemAvailable:" in fields else []
    )
    for folder in _folders(groups, mount, "memory"):
        for limit_name, used_name in _MEMORY_FILES:
            limit, used = text_of(folder / limit_name), text_of(folder / used_name)
            if used and limit.isdecimal() and int(limit):
                statistics = text_of(folder / "memory.stat").split()
                values = dict(zip(statistics[::2], statistics[1::2], strict=False))
                cached = values.get("total_inactive_file", values.get("inactive_file", "0"))
                free.append(int(limit) - int(used) + int(cached))
    return max(0, min(free, default=0))


def _folders(groups: Path, mount: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the groups with a controller's limits, up to its mount."""
    for line in text_of(groups).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        root = _root(mount, controllers)
        # A container may see the host's path, which is not below its own mount: it is skipped.
        own = PurePosixPath(path.lstrip("/"))
        if ".." not in own.parts:
            yield from (root / group for group in (own, *own.parents))


def _root(mount: Path, controllers: str) -> Path:
    """Return where a hierarchy is mounted: version 2, which names no controllers, at the top."""
    if not controllers:
        return mount
    joined = mount / controllers
    if joined.is_dir():
        return joined
    folders = (mount / name for name in controllers.split(",") if (mount / name).is_dir())
    return next(folders, joined)


def _quota(folder: Path) -> float:
    """Return the number of cores that a group may use, 0 for no limit."""
    quota, period = (*text_of(folder / "cpu.max").split(), "", "")[:2]
    if not quota:
        quota = text_of(folder / "cpu.cfs_quota_us")
        period = text_of(folder / "cpu.cfs_period_us")
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return 0.0
    return int(quota) / int(period)
