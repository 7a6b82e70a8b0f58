"""What else the machine was doing during a run, for its conditions. Reads /proc and /sys.

A thread that lost its core may have lost it to another thread of the worker. `others_cpu_s` is how
long the cores that the worker may use were busy with anything else, a hypervisor included.
"""

import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.agent.machine.kernel_files import text_of

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
_STATM = Path("/proc/self/statm")
_TIMES = Path("/proc/stat")
_BUSY = (1, 2, 3, 6, 7, 8)
"""Columns of a core in /proc/stat, in ticks: user, nice, system, irq, softirq, steal.

https://man7.org/linux/man-pages/man5/proc_stat.5.html; guests are in user and nice.
"""


@dataclass(frozen=True, slots=True)
class MachineReading:
    """The counters of the machine and of this process at one moment."""

    load_average: float
    involuntary_switches: int
    major_faults: int
    cpu_s: float
    #: CLOCK_MONOTONIC
    at_s: float = 0.0
    #: how long the cores of this process were busy in sum, with any process; None where unknown
    busy_s: float | None = None
    cores: int = 1


def read_machine() -> MachineReading:
    """Return the counters now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return MachineReading(
        load_average=os.getloadavg()[0],
        involuntary_switches=used.ru_nivcsw,
        major_faults=used.ru_majflt,
        cpu_s=used.ru_utime + used.ru_stime,
        at_s=time.monotonic(),
        busy_s=busy_s(cores := usable_core_numbers()),
        cores=len(cores),
    )


def usable_core_numbers() -> frozenset[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def busy_s(cores: frozenset[int], times: Path = _TIMES) -> float | None:
    """Return how long some cores were busy since the boot, in sum; None where that is unknown."""
    names = {f"cpu{core}" for core in cores}
    rows = [line.split() for line in text_of(times).splitlines()]
    ticks = [sum(int(row[at]) for at in _BUSY) for row in rows if row and row[0] in names]
    is_known = len(ticks) == len(names) and any(ticks)  # a sandbox may show zeros
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if is_known else None


def noise_between(before: MachineReading, after: MachineReading) -> dict[str, Any]:
    """Return the changes from one reading to another; load averages are of one minute."""
    noise: dict[str, Any] = {
        "load_average_start": before.load_average,
        "load_average_end": after.load_average,
        "involuntary_switches": after.involuntary_switches - before.involuntary_switches,
        "major_faults": after.major_faults - before.major_faults,
        "cpu_s": round(after.cpu_s - before.cpu_s, 6),
        "elapsed_s": round(after.at_s - before.at_s, 6),
        "cores": after.cores,
    }
    if before.busy_s is not None and after.busy_s is not None and before.cores == after.cores:
        # Ticks are 10 ms: over a short time the sum may be below our own, exact time.
        others_s = after.busy_s - before.busy_s - noise["cpu_s"]
        noise["others_cpu_s"] = round(max(others_s, 0.0), 6)
    governor, frequency = text_of(_GOVERNOR), text_of(_FREQUENCY)
    if governor:
        noise["cpu_governor"] = governor
    if frequency.isdigit():
        noise["cpu_khz"] = int(frequency)
    return noise


def others_share(noise: Mapping[str, Any]) -> float | None:
    """Return the share of the cores' time that others used, of `noise_between`; None unknown."""
    used_s, cores_s = noise.get("others_cpu_s"), noise["elapsed_s"] * noise["cores"]
    return None if used_s is None or not cores_s else float(used_s / cores_s)


def resident_bytes() -> int:
    """Return this process's resident memory."""
    pages = text_of(_STATM).split()
    if len(pages) > 1:
        return int(pages[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
