"""What the process used, as the system tells: CPU time, faults, switches, memory, input and output.

A thread samples memory and CPU time while a block runs (`rate_hz`, 20 a second unless asked
otherwise); totals of the block come once, at its end, with the attribute `total`. Sources:
getrusage(2) for the process with all its threads, /proc/self/statm and /proc/self/io (proc(5)).
"""

import resource
import threading
from collections.abc import Iterator
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.noise import resident_bytes

OPTIONS: tuple[str, ...] = ("rate_hz",)
RATE_HZ = 20.0
MOST_SAMPLES = 100_000
"""Sweeps kept of one block; what comes after is dropped and counted."""
_IO = Path("/proc/self/io")
_IO_SERIES = {"read_bytes": "io_read", "write_bytes": "io_write"}

Totals = dict[str, tuple[float, str]]
"""By series: a value that only grows, and its unit."""


def availability() -> Availability:
    """Say that any Unix tells this much."""
    reason = "" if _io_bytes() else f"{_IO} tells nothing: input and output are left out"
    return Availability((Level.SYSTEM,), reason)


def open_collector(request: CollectorRequest) -> "ResourceCollector":
    """Open the sampler; option `rate_hz`. Raises CollectorUnavailable."""
    rate_hz = float(request.options.get("rate_hz", RATE_HZ))
    if not 0 < rate_hz <= 1000:
        raise CollectorUnavailable("resource", f"rate_hz {rate_hz:g} is not in 0 to 1000")
    return ResourceCollector(rate_hz)


def totals() -> Totals:
    """Return what the process used since it began."""
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
    """Samples from a thread of its own while a block runs."""

    name = "resource"
    level = Level.SYSTEM

    def __init__(self, rate_hz: float) -> None:
        self._period_s = 1 / rate_hz
        self._sweeps: list[tuple[int, int, float]] = []
        self._dropped = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: Totals = {}

    def begin(self) -> None:
        """Take the totals and begin to sample."""
        self._sweeps, self._dropped = [], 0
        self._stop.clear()
        self._thread = threading.Thread(target=self._sample, name="resource", daemon=True)
        self._thread.start()
        self._before = totals()

    def end(self) -> Collected:
        """Return the block's samples, and its totals."""
        after, at_ns = totals(), now_ns()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        spans = [*self._series(), *self._totals(after, at_ns)]
        return Collected(spans, self._dropped)

    def close(self) -> None:
        """End the thread where a block was left in its middle."""
        self._stop.set()

    def _sample(self) -> None:
        while True:
            if len(self._sweeps) < MOST_SAMPLES:
                used = resource.getrusage(resource.RUSAGE_SELF)
                self._sweeps.append((now_ns(), resident_bytes(), used.ru_utime + used.ru_stime))
            else:
                self._dropped += 1
            if self._stop.wait(self._period_s):
                return

    def _series(self) -> Iterator[CollectedSpan]:
        for at_ns, resident, cpu_s in self._sweeps:
            yield sample(at_ns, "resource.rss", resident, "By")
            yield sample(at_ns, "resource.cpu", cpu_s, "s")

    def _totals(self, after: Totals, at_ns: int) -> Iterator[CollectedSpan]:
        for name, (value, unit) in after.items():
            used = value - self._before.get(name, (value, unit))[0]
            yield sample(at_ns, f"resource.{name}", used, unit, total=True)


def sample(at_ns: int, name: str, value: float, unit: str, *, total: bool = False) -> CollectedSpan:
    """Return one value of a series; a `total` is of its whole block."""
    attributes = {"value": value, "unit": unit} | ({"total": True} if total else {})
    return CollectedSpan(Level.SYSTEM, name, at_ns, 0, kind=SpanKind.SAMPLE, attributes=attributes)


def _io_bytes() -> dict[str, int]:
    """Return bytes that reached or came from storage; nothing where the system does not say."""
    try:
        lines = (line.partition(":") for line in _IO.read_text().splitlines())
        return {name: int(value) for name, _, value in lines if name in _IO_SERIES}
    except (OSError, ValueError):
        return {}
