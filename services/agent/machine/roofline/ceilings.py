"""A device's roof: its peak arithmetic and memory throughput, and which of them bounds a run.

Pure. A GPU's figures are by precision; a host's by precision and by the number of threads that
reached them. `host_roof` and `gpu_roof` measure them, the host's `roofs` keeps them.
"""

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import TypeAdapter

from schemas.run import Ceiling

PRECISIONS = ("float32", "tf32", "float16", "bfloat16", "int8", "float64")
"""Arithmetics that have a peak. tf32: float32 with 10 bits of mantissa, on tensor cores."""
_FASTER = ("allowed)", "products)")
"""How predictors end a precision that allows a faster one, as `float32 (tf32 allowed)`."""
MOST_OTHERS = 0.1
"""Share of the cores' time above which other processes disturb a measurement of a host."""
ALL_THREADS = 0
"""In place of a number of threads: the whole device."""

CeilingsByThreads = Mapping[int, Ceiling]


@dataclass(frozen=True, slots=True)
class RunCeilings:
    """The ceilings of one run, by their field of `Conditions`, and a caveat about them."""

    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Roof:
    """FLOP/s by precision and threads, bytes/s by threads; a note where nothing was measured."""

    #: cpu, gpu, or '' where there is none
    kind: str = ""
    #: the device's name
    device: str = ""
    peaks: Mapping[str, CeilingsByThreads] = field(default_factory=dict)
    bandwidths: CeilingsByThreads = field(default_factory=dict)
    #: by precision, or `copy`, why it has no figure
    missing: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    #: share of the cores' time that other processes used while a host was measured
    others: float = 0.0

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes used so much that a quieter moment would show more."""
        return self.others > MOST_OTHERS

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, as files keep it."""
        values: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Roof":
        """Return the roof that `to_dict` describes. Raises KeyError, ValueError, TypeError."""
        if "missing" not in values and "lacking" in values:
            values = {**values, "missing": values["lacking"]}  # files of version 0.1
        return _ADAPTER.validate_python({name: values[name] for name in _FIELDS})

    def for_run(self, precision: str, threads: int) -> RunCeilings:
        """Return the ceilings of a run in `precision`, as its conditions name it, on `threads`.

        Of a run in several precisions it is the fastest: nothing may exceed a roof.
        """
        if not self.kind or (not self.peaks and not self.bandwidths):
            return RunCeilings(note=self.note)
        bandwidth = _ceiling_at(self.bandwidths, threads)
        if bandwidth is None:
            reason = self.missing.get("copy", "no copy was measured")
            return RunCeilings(note=f"no roof: {reason}")
        ceilings = {"memory_bandwidth": bandwidth}
        names = [
            # On a device without tf32, to allow it changes nothing.
            "float32" if name == "tf32" and "tf32" not in self.peaks else name
            for name in arithmetic_of(precision)
        ]
        if not names:
            note = f"no roof: no peak is known of precision {precision or 'unknown'}"
            return RunCeilings(ceilings, note)
        peaks = [peak for name in names if (peak := _ceiling_at(self.peaks.get(name, {}), threads))]
        if len(peaks) < len(names):
            name = next(name for name in names if name not in self.peaks)
            reason = self.missing.get(name, "it was not measured")
            note = f"no roof: the peak of {name} is not known here ({reason})"
            return RunCeilings(ceilings, note)
        note = self.note
        if self.is_disturbed:
            note = (
                f"other processes used {self.others:.0%} of the cores while its roof was measured:"
                " the true roof is higher"
            )
        peak = max(peaks, key=lambda ceiling: ceiling.measured or ceiling.datasheet or 0.0)
        return RunCeilings({**ceilings, "peak_flops": peak}, note)

    def whole_device(self) -> tuple[dict[str, Ceiling], Ceiling | None]:
        """Return the peaks by precision and the bandwidth of the whole device."""
        peaks = {
            name: ceiling
            for name, by_threads in self.peaks.items()
            if (ceiling := _ceiling_at(by_threads, ALL_THREADS))
        }
        return peaks, _ceiling_at(self.bandwidths, ALL_THREADS)


_ADAPTER = TypeAdapter(Roof)
_FIELDS = tuple(slot.name for slot in fields(Roof))

NO_ROOF = Roof()
"""The roof of an order that needs none."""


def arithmetic_of(precision: str) -> tuple[str, ...]:
    """Return the arithmetics that a run's precision (`Opened.precision`) allows; () if unknown.

    `float32 (tf32 allowed)` is tf32; `int8 (quantized float32)` int8; `float16+float32` both.
    """
    head, _, remark = precision.partition(" (")
    inner, _, ending = remark.partition(" ")
    names = (inner,) if ending in _FASTER else tuple(head.split("+"))
    return names if all(name in PRECISIONS for name in names) else ()


def _ceiling_at(by_threads: CeilingsByThreads, threads: int) -> Ceiling | None:
    """Return the ceiling of a number of threads.

    As measured, interpolated linearly between two measured numbers, or that of the most threads.
    """
    if not by_threads:
        return None
    counts = sorted(by_threads)
    if threads in by_threads or ALL_THREADS in by_threads:
        return by_threads.get(threads, by_threads.get(ALL_THREADS))
    if threads <= ALL_THREADS or threads > counts[-1]:
        return by_threads[counts[-1]]
    place = bisect(counts, threads)
    under, over = counts[max(place - 1, 0)], counts[place]
    low, high = by_threads[under], by_threads[over]
    if low.measured is None or high.measured is None or under == over:
        return high
    share = (threads - under) / (over - under)
    measured = low.measured + (high.measured - low.measured) * share
    method = f"{high.method}; for {threads} threads interpolated between {under} and {over}"
    return high.model_copy(update={"measured": measured, "method": method})
