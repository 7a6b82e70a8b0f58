"""Energy of each block by counters: read just before and just after, nothing in between.

GPUs by NVML's total energy (`nvmlDeviceGetTotalEnergyConsumption`, mJ since the driver was
loaded; 4 ms a call and 11 changes a second on an H200), the host's packages and memory by RAPL in
/sys/class/powercap (uJ; Linux kernel, Documentation/power/powercap). Both are of the whole
device, idle power and all that others do on it included. Unlike sampled power it costs nothing
within the timed stretch, so that runs at any level have it.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectedSpan,
    CollectorRequest,
    nvml,
)
from services.agent.collectors.errors import CollectorUnavailable

OPTIONS: tuple[str, ...] = ()
POWERCAP = Path("/sys/class/powercap")
GPU, PACKAGE, DRAM = "energy.gpu", "energy.package", "energy.dram"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter of joules that only grows; `wraps_j` is where it begins at 0 again, 0 never."""

    series: str
    device: int
    read_j: Callable[[], float]
    wraps_j: float = 0.0


def availability() -> Availability:
    """Say whether any counter can be read here."""
    has_host = any(host_counters(POWERCAP))
    gpu = nvml.availability()
    has_gpu = bool(gpu.levels) and not gpu.reason
    reasons = ["" if has_host else f"no energy of the host can be read below {POWERCAP}"]
    reasons.append("" if has_gpu else gpu.reason)
    levels = (Level.APPLICATION,) if has_host or has_gpu else ()
    told = "; ".join(reason for reason in reasons if reason)
    return Availability(levels, told, () if has_host else ("gpu",))


def open_collector(request: CollectorRequest) -> "EnergyCollector":
    """Open the counters of a session's device and its host. Raises CollectorUnavailable."""
    counters = [*host_counters(POWERCAP)]
    if request.opened.device != "cpu" and find_spec("pynvml") is not None:
        with contextlib.suppress(CollectorUnavailable):
            counters += gpu_counters(request)
    if not counters:
        raise CollectorUnavailable("energy", "no counter of energy can be read here")
    return EnergyCollector(counters)


def gpu_counters(request: CollectorRequest) -> Iterator[Counter]:
    """Yield the counter of the GPU that a session runs on. Raises CollectorUnavailable."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    for device in nvml.used_of(nvml.devices(), request.opened, visible):
        if device.energy_j is not None:
            yield Counter(GPU, device.label, device.energy_j)


def host_counters(folder: Path) -> Iterator[Counter]:
    """Yield the counters of packages, and of memory, that this process may read.

    A package's zone is `intel-rapl:N`, on AMD as well; what lies in it is `intel-rapl:N:M`, of
    which `dram` is no part of the package.
    """
    for zone in sorted(folder.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text().strip()
            series = {"package": PACKAGE, "dram": DRAM}.get(name.partition("-")[0])
            wraps_j = float((zone / "max_energy_range_uj").read_text()) * 1e-6
            float((zone / "energy_uj").read_text())
        except (OSError, ValueError):
            continue
        number = zone.name.split(":")[1]
        if series is not None and number.isdigit():
            yield Counter(series, int(number), _reader(zone / "energy_uj"), wraps_j)


class EnergyCollector:
    """Reads each counter twice a block."""

    name = "energy"
    level = Level.APPLICATION

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters = tuple(counters)
        self._before: list[tuple[int, float]] = []

    def begin(self) -> None:
        """Read the counters."""
        self._before = [_stamped(each) for each in self._counters]

    def end(self) -> Collected:
        """Read them again: two values a counter, the first 0, the second what the block took."""
        after = [_stamped(each) for each in self._counters]
        spans: list[CollectedSpan] = []
        for counter, begun, ended in zip(self._counters, self._before, after, strict=True):
            grown = ended[1] - begun[1]
            if grown < 0:
                grown += counter.wraps_j
            spans += (_value(counter, begun[0], 0.0), _value(counter, ended[0], grown))
        return Collected(spans)

    def close(self) -> None:
        """Nothing is held."""


def _stamped(counter: Counter) -> tuple[int, float]:
    """Return the middle of a read (CLOCK_MONOTONIC ns) and its joules."""
    began = now_ns()
    value = counter.read_j()
    return (began + now_ns()) // 2, value


def _value(counter: Counter, at_ns: int, joules: float) -> CollectedSpan:
    attributes = {"value": joules, "unit": "J", "device": counter.device}
    kind = SpanKind.SAMPLE
    return CollectedSpan(
        Level.APPLICATION, counter.series, at_ns, 0, kind=kind, attributes=attributes
    )


def _reader(path: Path) -> Callable[[], float]:
    return lambda: float(path.read_text()) * 1e-6
