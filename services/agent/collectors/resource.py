"""Resources that the process used: CPU time, faults, switches, memory, input and output.

A thread samples memory and CPU time while a block runs (`rate_hz`, 20 per second by default);
totals of the block are recorded once, at its end, with the attribute `total`. Sources:
getrusage(2) for the process with all its threads, /proc/self/statm and /proc/self/io (proc(5)).
"""

import resource
import threading
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.machine.noise import resident_bytes

OPTIONS: tuple[str, ...] = ("rate_hz",)
RATE_HZ = 20.0
MAX_SAMPLES = 100_000
"""Samples kept of one block; further ones are dropped and counted."""
_IO = Path("/proc/self/io")
_IO_SERIES = {"read_bytes": "io_read", "write_bytes": "io_write"}

Totals = dict[str, tuple[float, str]]
"""An increasing value and its unit, by series."""


def availability() -> Availability:
    """Return level system, on any Unix."""
    reason = "" if _io_bytes() else f"{_IO} can't be read: input and output are left out"
    return Availability((Level.SYSTEM,), reason)


def open_collector(request: CollectorRequest) -> "ResourceCollector":
    """Open the sampler, with the option `rate_hz`. Raises CollectorUnavailable."""
    rate_hz = float(request.options.get("rate_hz", RATE_HZ))
    if not 0 < rate_hz <= 1000:
        raise CollectorUnavailable(
            "resource", f"rate_hz is {rate_hz:g}; it must be above 0 and at most 1000"
        )
    return ResourceCollector(rate_hz)


def totals() -> Totals:
    """Return the resources that the process used since its start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu_user": (used.ru_utime, "s"),
        "cpu_system": (used.ru_stime, "s"),
        "minor_faults": (used.ru_minflt, "1"),
        "major_faults": (used.ru_majflt, "1"),
        "voluntary_switches": (used.ru_nvcsw, "1"),
        "involuntary_switches": (used.ru_nivcsw, "1"),
        **{_IO_SERIES[name]: (value, "By") for name, value in _io_bytes().items()},
    }


class ResourceCollector:
    """Samples on a thread of its own while a block runs."""

    name = "resource"
    level = Level.SYSTEM

    def __init__(self, rate_hz: float) -> None:
        self._period_s = 1 / rate_hz
        self._samples: list[tuple[int, int, float]] = []
        self._dropped = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: Totals = {}

    def begin(self) -> None:
        """Read the totals and begin to sample."""
        self._samples, self._dropped = [], 0
        self._stop.clear()
        self._thread = threading.Thread(target=self._run_sampler, name="resource", daemon=True)
        self._thread.start()
        self._before = totals()

    def end(self) -> Collected:
        """Return the block's samples and totals."""
        after, at_ns = totals(), now_ns()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        spans: list[CollectedSpan] = []
        for sampled_ns, resident, cpu_s in self._samples:
            spans.append(sample(sampled_ns, "resource.rss", resident, "By"))
            spans.append(sample(sampled_ns, "resource.cpu", cpu_s, "s"))
        for name, (value, unit) in after.items():
            used = value - self._before.get(name, (value, unit))[0]
            spans.append(sample(at_ns, f"resource.{name}", used, unit, total=True))
        return Collected(spans, self._dropped)

    def close(self) -> None:
        """Stop the thread where a block was interrupted."""
        self._stop.set()

    def _run_sampler(self) -> None:
        while True:
            if len(self._samples) < MAX_SAMPLES:
                used = resource.getrusage(resource.RUSAGE_SELF)
                self._samples.append((now_ns(), resident_bytes(), used.ru_utime + used.ru_stime))
            else:
                self._dropped += 1
            if self._stop.wait(self._period_s):
                return


def sample(at_ns: int, name: str, value: float, unit: str, *, total: bool = False) -> CollectedSpan:
    """Return one value of a series.

    `at_ns`: CLOCK_MONOTONIC. `name`, `unit`: of the series. `total`: whether the value is of its
    whole block.
    """
    attributes = {"value": value, "unit": unit} | ({"total": True} if total else {})
    return CollectedSpan(Level.SYSTEM, name, at_ns, 0, kind=SpanKind.SAMPLE, attributes=attributes)


def _io_bytes() -> dict[str, int]:
    """Return the bytes read from and written to storage; {} where the system does not say."""
    try:
        lines = (line.partition(":") for line in _IO.read_text().splitlines())
        return {name: int(value) for name, _, value in lines if name in _IO_SERIES}
    except (OSError, ValueError):
        return {}
