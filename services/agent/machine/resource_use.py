"""What processes and a GPU use now, read from `/proc` and NVML: about 0.2 ms a reading."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.agent.machine.nvml import nvml_and_device

_PROCESSES = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER, _CHILDREN_SYSTEM = 11, 14
"""Places of the first and last of four times in `stat`, after the name.

https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""
_MOST_PROCESSES = 1000


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """CPU-seconds a second, share of the GPU's time, watts; None where unknown."""

    cpu_cores: float | None = None
    gpu_share: float | None = None
    power_w: float | None = None


class ResourceMeter:
    """Reads the use of a process and its descendants, and of a GPU."""

    def __init__(self, pid: int, gpu_number: int | None, processes: Path = _PROCESSES) -> None:
        """Read process `pid` below `processes`; `gpu_number` is NVML's, None without a GPU."""
        self._pid, self._processes = pid, processes
        opened: tuple[Any, Any] = (
            (None, None)
            if gpu_number is None
            else (nvml_and_device(lambda nvml: nvml.nvmlDeviceGetHandleByIndex(gpu_number)))
        )
        self._nvml, self._gpu = opened
        self._before = (time.monotonic(), self._cpu_s())

    def read(self) -> ResourceUse:
        """Return the use since the last reading."""
        before_s, cpu_before_s = self._before
        self._before = now_s, cpu_s = time.monotonic(), self._cpu_s()
        cores = None
        if cpu_s is not None and cpu_before_s is not None and now_s > before_s:
            # A process that ended takes its time along, unless its parent waited for it.
            cores = max(cpu_s - cpu_before_s, 0.0) / (now_s - before_s)
        gpu_share = power_w = None
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):  # of a part of a GPU (MIG) it has none
                gpu_share = self._nvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu / 100
            with suppress(self._nvml.NVMLError):
                power_w = self._nvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000
        return ResourceUse(cores, gpu_share, power_w)

    def close(self) -> None:
        """End the use of NVML."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None

    def _cpu_s(self) -> float | None:
        total, waiting, visited = 0.0, [self._pid], 0
        is_known = False
        while waiting and visited < _MOST_PROCESSES:
            pid = waiting.pop()
            visited += 1
            with suppress(OSError, ValueError, IndexError):
                folder = self._processes / str(pid)
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks = sum(int(field) for field in fields[_USER : _CHILDREN_SYSTEM + 1])
                total, is_known = total + ticks / _TICKS_PER_S, True
                for children in folder.glob("task/*/children"):
                    waiting += [int(child) for child in children.read_text().split()]
        return total if is_known else None


def gpu_number_of(device: str, visible: str | None) -> int | None:
    """Return NVML's number of the GPU that a `device` such as `cuda:1` means, None without one.

    `visible` is CUDA_VISIBLE_DEVICES: frameworks count within it, NVML counts all devices.
    """
    kind, _, text = device.partition(":")
    if kind not in ("cuda", "gpu"):
        return None
    number = int(text) if text.isdigit() else 0
    if not visible:
        return number
    name = dict(enumerate(visible.split(","))).get(number, "").strip()
    return int(name) if name.isdigit() else None
