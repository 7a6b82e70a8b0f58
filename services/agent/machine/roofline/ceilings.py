"""A device's roof: its peak arithmetic and memory throughput, and which of them bounds a run.

Pure. A GPU's figures are by precision; a host's by precision and by the number of threads that
reached them. `host_roof` and `gpu_roof` measure them, the host's `roofs` keeps them.
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any

from pydantic import TypeAdapter

from schemas.run import Ceiling

PRECISIONS = ("float32", "tf32", "float16", "bfloat16", "int8", "float64")
"""Arithmetics that have a peak. tf32: float32 with 10 bits of mantissa, on tensor cores."""
_FASTER = ("allowed)", "products)")
"""How predictors end a precision that allows a faster one, as `float32 (tf32 allowed)`."""
MOST_OTHERS = 0.1
"""Share of a device's time above which other processes disturb a measurement of it."""
MOST_SPREAD = 0.2
"""Spread of tries above which something unknown disturbed them.

Not less: a GPU that reaches its power limit slows down from one try to the next by itself.
"""
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
    #: what slowed the measurement, as `other processes used 40% of the cores`; '' nothing
    disturbance: str = ""

    @property
    def is_disturbed(self) -> bool:
        """Whether a quieter moment would show more: it is then no roof to keep."""
        return bool(self.disturbance)

    @property
    def ceilings(self) -> Sequence[Ceiling]:
        """All its ceilings."""
        by_threads = (*self.peaks.values(), self.bandwidths)
        return [ceiling for ceilings in by_threads for ceiling in ceilings.values()]

    def with_changes(self, **changes: Any) -> "Roof":
        """Return it with the same fields changed in each of its ceilings."""

        def changed(by_threads: CeilingsByThreads) -> CeilingsByThreads:
            return {
                threads: ceiling.model_copy(update=changes)
                for threads, ceiling in by_threads.items()
            }

        peaks = {name: changed(by_threads) for name, by_threads in self.peaks.items()}
        return replace(self, peaks=peaks, bandwidths=changed(self.bandwidths))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, as files keep it."""
        values: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Roof":
        """Return the roof that `to_dict` describes. Raises KeyError, ValueError, TypeError."""
        if "missing" not in values and "lacking" in values:
            values = {**values, "missing": values["lacking"]}  # files of version 0.1
        optional = {"disturbance": values.get("disturbance", "")}  # version 0.1 had none
        required = {name: values[name] for name in _FIELDS if name not in optional}
        return _ADAPTER.validate_python({**required, **optional})

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
            note = f"{self.disturbance} while its roof was measured: the true roof is higher"
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


def measured_ceiling(amount: float, tries_s: Sequence[float], method: str) -> Ceiling:
    """Return the ceiling of an `amount` of work by a `method`; each try took one of `tries_s`.

    The least time counts; the uncertainty is how far the median try's rate is below the best.
    """
    best_s = max(min(tries_s), 1e-9)
    uncertainty = 1.0 - best_s / max(median(tries_s), best_s)
    method = f"{method}, best of {len(tries_s)}"
    return Ceiling(measured=amount / best_s, method=method, uncertainty=uncertainty)


def disturbance_by_others(used_share: float | None, device: str) -> str:
    """Return that other processes used a share of a device (the cores, the GPU); '' if few did."""
    if used_share is None or used_share <= MOST_OTHERS:
        return ""
    return f"other processes used {used_share:.0%} of {device}"


def disturbance_in_tries(roof: Roof) -> str:
    """Return that something slowed some tries of a roof; '' where they agree."""
    spread = max((ceiling.uncertainty or 0.0 for ceiling in roof.ceilings), default=0.0)
    is_disturbed = spread > MOST_SPREAD
    return f"something slowed half of its tries by {spread:.0%} or more" if is_disturbed else ""


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
    exact = by_threads.get(threads, by_threads.get(ALL_THREADS))
    if exact is not None or not by_threads:
        return exact
    counts = sorted(by_threads)
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
    uncertainties = [
        ceiling.uncertainty for ceiling in (low, high) if ceiling.uncertainty is not None
    ]
    changes = {
        "measured": measured,
        "method": method,
        "uncertainty": max(uncertainties, default=None),
    }
    return high.model_copy(update=changes)
