"""A device's roof: the most it computes and moves a second, from a run's conditions.

Attainable throughput = min(peak, bandwidth x intensity) (Williams, Waterman and Patterson 2009);
XSP's ideal intensity is peak / bandwidth, and memory-bound is an intensity below it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlscope.client.quantities import shown
from services.analyzer.frames import RunRow


@dataclass(frozen=True, slots=True)
class Ceilings:
    """FLOP/s and bytes/s; None where nobody measured or looked it up."""

    peak: float | None = None
    bandwidth: float | None = None
    #: the same of the device's datasheet
    datasheet_peak: float | None = None
    datasheet_bandwidth: float | None = None
    #: measured, datasheet, or '' where there is none
    kind: str = ""
    method: str = ""

    @property
    def ideal_intensity(self) -> float | None:
        """FLOP per byte at which the two ceilings meet."""
        return self.peak / self.bandwidth if self.peak and self.bandwidth else None

    def roof(self, intensity: float | None) -> float | None:
        """Return FLOP/s that are attainable at an intensity."""
        if intensity is None or self.peak is None or self.bandwidth is None:
            return None
        return min(self.peak, self.bandwidth * intensity)

    def is_memory_bound(self, intensity: float | None) -> bool | None:
        """Say whether an intensity lies below the ideal; None where one of them is unknown."""
        ideal = self.ideal_intensity
        return None if intensity is None or ideal is None else intensity < ideal


def ceilings_of(row: RunRow) -> Ceilings:
    """Return the roof of the device that a run was on: as measured, else as its datasheet says."""
    peak = _told(row.conditions.get("peak_flops"))
    bandwidth = _told(row.conditions.get("memory_bandwidth"))
    measured = _number(peak, "measured"), _number(bandwidth, "measured")
    sheet = _number(peak, "datasheet"), _number(bandwidth, "datasheet")
    # Both of one kind: a measured peak over a datasheet's bandwidth is no intensity of anything.
    kind = "measured" if all(measured) else "datasheet" if all(sheet) else ""
    chosen = {"measured": measured, "datasheet": sheet}.get(kind, (None, None))
    method = "; ".join(str(each["method"]) for each in (peak, bandwidth) if each.get("method"))
    return Ceilings(*chosen, *sheet, kind=kind, method=method)


def ceiling_note(row: RunRow) -> str:
    """Return what must be said of a run's roof; '' where it was measured."""
    kind = ceilings_of(row).kind
    if kind == "measured":
        return ""
    if kind:
        return f"{row.run}: the roof is the datasheet's, nobody measured it on this machine"
    return f"{row.run}: peak and bandwidth of its device are unknown: no roof, no memory_bound"


def roof_notes(rows: Iterable[RunRow]) -> list[str]:
    """Return the runs' roofs in sentences, datasheets beside: one for those that have the same."""
    names: dict[str, list[str]] = {}
    notes = []
    for row in rows:
        if told := _roof_told(row):
            names.setdefault(told, []).append(row.run)
        else:
            notes.append(ceiling_note(row))
    return [*notes, *(f"{', '.join(runs)}: the roof is {told}" for told, runs in names.items())]


def _roof_told(row: RunRow) -> str:
    found = ceilings_of(row)
    if not found.kind:
        return ""
    sheet = {
        "FLOP/s": (found.peak, found.datasheet_peak),
        "B/s": (found.bandwidth, found.datasheet_bandwidth),
    }
    told = [
        shown(value, unit) + (f" (datasheet {shown(says, unit)})" if says and says != value else "")
        for unit, (value, says) in sheet.items()
    ]
    how = f" ({found.method})" if found.method else ""
    note = "" if found.kind == "measured" else "; as its datasheet says, nobody measured it there"
    return f"{' and '.join(told)}{how}{note}"


def _told(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return {} if value is None else {"measured": value}


def _number(told: Mapping[str, Any], name: str) -> float | None:
    value = told.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if value > 0 else None
