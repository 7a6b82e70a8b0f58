"""Energy of each block by counters, which are read just before and just after it.

GPUs by NVML's total energy (`nvmlDeviceGetTotalEnergyConsumption`, mJ since the driver was loaded;
4 ms per call and 11 updates per second on an H200), the host's packages and memory by RAPL in
/sys/class/powercap (uJ; Linux kernel, Documentation/power/powercap). Both count the whole device,
including idle power and the work of other processes. Unlike sampled power they cost nothing within
the timed part, so runs at any level have them.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.nvml import collector as nvml

OPTIONS: tuple[str, ...] = ()
POWERCAP = Path("/sys/class/powercap")
GPU, PACKAGE, DRAM = "energy.gpu", "energy.package", "energy.dram"


@dataclass(frozen=True, slots=True)
class Counter:
    """One increasing counter of joules; it wraps to 0 at `wraps_j`, never where that is 0."""

    series: str
    device: int
    read_j: Callable[[], float]
    wraps_j: float = 0.0


def availability() -> Availability:
    """Return level application where any counter can be read."""
    has_host = any(host_counters(POWERCAP))
    gpu = nvml.availability()
    has_gpu = bool(gpu.levels) and not gpu.reason
    reasons = ["" if has_host else f"the host has no readable energy counter in {POWERCAP}"]
    reasons.append("" if has_gpu else gpu.reason)
    levels = (Level.APPLICATION,) if has_host or has_gpu else ()
    reason = "; ".join(filter(None, reasons))
    return Availability(levels, reason, () if has_host else ("gpu",))


def open_collector(request: CollectorRequest) -> "EnergyCollector":
    """Open the counters of a session's device and its host. Raises CollectorUnavailable."""
    counters = [*host_counters(POWERCAP)]
    if request.opened.device != "cpu" and find_spec("pynvml") is not None:
        with contextlib.suppress(CollectorUnavailable):
            counters += gpu_counters(request)
    if not counters:
        raise CollectorUnavailable("energy", "no energy counter can be read here")
    return EnergyCollector(counters)


def gpu_counters(request: CollectorRequest) -> Iterator[Counter]:
    """Yield the counter of the session's GPU. Raises CollectorUnavailable."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    for device in nvml.device_of(nvml.devices(), request.opened, visible):
        if device.energy_j is not None:
            yield Counter(GPU, device.label, device.energy_j)


def host_counters(folder: Path) -> Iterator[Counter]:
    """Yield the counters of packages and memory in a folder that this process may read.

    A package's zone is `intel-rapl:N`, also on AMD; its subzones are `intel-rapl:N:M`, of which
    `dram` is not counted in the package.
    """
    for zone in sorted(folder.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text().strip()
            series = {"package": PACKAGE, "dram": DRAM}.get(name.partition("-")[0])
            wraps_j = _joules(zone / "max_energy_range_uj")
            _joules(zone / "energy_uj")
        except (OSError, ValueError):
            continue
        number = zone.name.split(":")[1]
        if series is not None and number.isdigit():
            yield Counter(series, int(number), partial(_joules, zone / "energy_uj"), wraps_j)


class EnergyCollector:
    """Reads each counter twice per block."""

    name = "energy"
    level = Level.APPLICATION

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters = tuple(counters)
        self._before: list[tuple[int, float]] = []

    def begin(self) -> None:
        """Read the counters."""
        self._before = [_read(counter) for counter in self._counters]

    def end(self) -> Collected:
        """Read them again; return two values per counter: 0, then the block's energy."""
        after = [_read(counter) for counter in self._counters]
        spans: list[CollectedSpan] = []
        for counter, first, last in zip(self._counters, self._before, after, strict=True):
            (began_ns, began_j), (ended_ns, ended_j) = first, last
            wrapped_j = counter.wraps_j if ended_j < began_j else 0.0
            spans += (
                _sample(counter, began_ns, 0.0),
                _sample(counter, ended_ns, ended_j - began_j + wrapped_j),
            )
        return Collected(spans)

    def close(self) -> None:
        """Do nothing: no resource is held."""


def _read(counter: Counter) -> tuple[int, float]:
    """Return the middle of a read (CLOCK_MONOTONIC ns) and its joules."""
    began = now_ns()
    value = counter.read_j()
    return (began + now_ns()) // 2, value


def _sample(counter: Counter, at_ns: int, joules: float) -> CollectedSpan:
    attributes = {"value": joules, "unit": "J", "device": counter.device}
    kind = SpanKind.SAMPLE
    return CollectedSpan(
        Level.APPLICATION, counter.series, at_ns, 0, kind=kind, attributes=attributes
    )


def _joules(path: Path) -> float:
    """Return what a file says in uJ. Raises OSError, ValueError."""
    return float(path.read_text()) * 1e-6
