"""What else the machine was doing: facts that belong beside every number. Reads /proc and /sys."""

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the machine and this process."""

    load_average: float
    involuntary_switches: int
    major_faults: int
    cpu_s: float


def reading() -> Reading:
    """Return where things stand now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Reading(
        load_average=os.getloadavg()[0],
        involuntary_switches=used.ru_nivcsw,
        major_faults=used.ru_majflt,
        cpu_s=used.ru_utime + used.ru_stime,
    )


def noise_between(before: Reading, after: Reading) -> dict[str, Any]:
    """Return what happened between two readings; load averages are of one minute."""
    noise: dict[str, Any] = {
        "load_average_start": before.load_average,
        "load_average_end": after.load_average,
        "involuntary_switches": after.involuntary_switches - before.involuntary_switches,
        "major_faults": after.major_faults - before.major_faults,
        "cpu_s": round(after.cpu_s - before.cpu_s, 6),
    }
    governor, frequency = _text(_GOVERNOR), _text(_FREQUENCY)
    if governor:
        noise["cpu_governor"] = governor
    if frequency.isdigit():
        noise["cpu_khz"] = int(frequency)
    return noise


def resident_bytes() -> int:
    """Return this process's resident memory."""
    pages = _text(_STATM).split()
    if len(pages) > 1:
        return int(pages[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""
