"""The measurements of a device: their best is its roof, their spread its uncertainty.

Pure. A start of an agent adds one measurement at most. One alone may meet a processor whose
neighbours are busy or which is warm; nothing in it shows that. So later starts measure again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.run import Ceiling
from services.agent.machine.roofline.ceilings import CeilingsByThreads, Roof

MEASUREMENTS = 3
"""Measurements until a device counts as known: the best of three, with their spread.

More would take seconds of each start (with JAX a minute) for a gain below that spread.
"""
APART_NS = 3_600_000_000_000
"""Least time between two measurements: a restart within an hour meets the same conditions."""


@dataclass(frozen=True, slots=True)
class KeptRoof:
    """What is known of a device: its undisturbed measurements; without one, why there is none."""

    measurements: tuple[Roof, ...] = ()
    note: str = ""

    @property
    def roof(self) -> Roof | None:
        """The best of its measurements; None without one."""
        return best_of(self.measurements) if self.measurements else None

    def is_due(self, now_ns: int) -> bool:
        """Return whether a start at `now_ns` (epoch) measures the device again."""
        measured_ns = (
            ceiling.measured_ns or 0 for roof in self.measurements for ceiling in roof.ceilings
        )
        newest_ns = max(measured_ns, default=0)
        return len(self.measurements) < MEASUREMENTS and now_ns - newest_ns >= APART_NS

    def with_measurement(self, roof: Roof) -> "KeptRoof":
        """Return it with the roof that was measured once more; as it is if that has none.

        A disturbed one does not count: it only tells that the true roof is not below it.
        """
        if roof.ceilings and not roof.is_disturbed:
            return KeptRoof((*self.measurements, roof))
        if self.measurements:
            return self
        missing = "; ".join(f"{name}: {reason}" for name, reason in roof.missing.items())
        reason = f"{roof.disturbance} at the last attempt" if roof.is_disturbed else missing
        return KeptRoof(note=roof.note or f"not measured yet: {reason}")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, as files keep it."""
        return {"measurements": [roof.to_dict() for roof in self.measurements], "note": self.note}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "KeptRoof":
        """Return what `to_dict` describes. Raises KeyError, ValueError, TypeError.

        Files of version 0.1 have one `roof`, of a time and an uncertainty that are unknown.
        """
        stored = [values["roof"]] if "roof" in values else values["measurements"]
        measurements = tuple(Roof.from_dict(roof).with_changes(measurements=1) for roof in stored)
        return cls(measurements, values.get("note", ""))


def best_of(measurements: Sequence[Roof]) -> Roof:
    """Return the best ceiling of each precision and number of threads; raises ValueError for none.

    What none of them has is missing for the reason of the newest.
    """
    newest = max(
        measurements,
        key=lambda roof: max((ceiling.measured_ns or 0 for ceiling in roof.ceilings), default=0),
    )
    names = dict.fromkeys(name for roof in measurements for name in roof.peaks)
    peaks = {
        name: _best_by_threads(roof.peaks.get(name, {}) for roof in measurements) for name in names
    }
    bandwidths = _best_by_threads(roof.bandwidths for roof in measurements)
    measured = {*peaks, "copy"} if bandwidths else {*peaks}
    missing = {name: reason for name, reason in newest.missing.items() if name not in measured}
    return replace(newest, peaks=peaks, bandwidths=bandwidths, missing=missing)


def _best_by_threads(measurements: Iterable[CeilingsByThreads]) -> CeilingsByThreads:
    of_threads: dict[int, list[Ceiling]] = {}
    for by_threads in measurements:
        for threads, ceiling in by_threads.items():
            of_threads.setdefault(threads, []).append(ceiling)
    return {threads: _best_ceiling(of_threads[threads]) for threads in sorted(of_threads)}


def _best_ceiling(ceilings: Sequence[Ceiling]) -> Ceiling:
    """Return the best of one ceiling's measurements.

    Its uncertainty is the larger of the spread of its tries and the distance to the lowest.
    """
    rates = [ceiling.measured for ceiling in ceilings if ceiling.measured]
    best = max(ceilings, key=lambda ceiling: ceiling.measured or 0.0)
    if len(rates) < 2:
        return best
    below_best = 1.0 - min(rates) / max(rates)
    changes = {
        "uncertainty": max(best.uncertainty or 0.0, below_best),
        "measurements": len(rates),
        "method": f"{best.method}, in the best of {len(rates)} measurements",
    }
    return best.model_copy(update=changes)
