"""A device's roof: its peak FLOP/s and memory bandwidth, from a run's conditions.

Attainable throughput = min(peak, bandwidth x intensity) (Williams, Waterman and Patterson 2009);
XSP's ideal intensity is peak / bandwidth, and memory-bound is an intensity below it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlscope.quantities import shown
from services.analyzer.frames.evaluation import RunRow


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Peak FLOP/s and bandwidth in bytes/s; None where neither measured nor in a datasheet."""

    peak: float | None = None
    bandwidth: float | None = None
    #: from the device's datasheet
    datasheet_peak: float | None = None
    datasheet_bandwidth: float | None = None
    #: measured, datasheet, or '' where there is none
    kind: str = ""
    method: str = ""
    #: shares by which the measured figures may be too low; None unknown
    peak_uncertainty: float | None = None
    bandwidth_uncertainty: float | None = None
    #: what slowed their measurement, so that the true roof may be higher
    disturbance: str = ""

    @property
    def ideal_intensity(self) -> float | None:
        """FLOP per byte at which the two ceilings meet."""
        return self.peak / self.bandwidth if self.peak and self.bandwidth else None

    @property
    def description(self) -> str:
        """Both ceilings for a sentence, with the datasheet's where they differ; '' for no roof."""
        if not self.kind:
            return ""
        figures = []
        for unit, value, datasheet, uncertainty in (
            ("FLOP/s", self.peak, self.datasheet_peak, self.peak_uncertainty),
            ("B/s", self.bandwidth, self.datasheet_bandwidth, self.bandwidth_uncertainty),
        ):
            is_other = datasheet and datasheet != value
            sheet = f" (datasheet {shown(datasheet, unit)})" if is_other else ""
            reach = "uncertainty unknown"
            if uncertainty is not None:
                reach = f"up to {uncertainty:.1%} higher"
            spread = f" ({reach})" if self.kind == "measured" else ""
            figures.append(f"{shown(value, unit)}{spread}{sheet}")
        method = f" ({self.method})" if self.method else ""
        source = "" if self.kind == "measured" else "; from the datasheet, not measured there"
        doubt = (
            f"; it may be higher: {self.disturbance} during the measurement"
            if self.disturbance
            else ""
        )
        return f"{' and '.join(figures)}{method}{source}{doubt}"

    def roof(self, intensity: float | None) -> float | None:
        """Return the attainable FLOP/s at an `intensity` in FLOP per byte."""
        if intensity is None or self.peak is None or self.bandwidth is None:
            return None
        return min(self.peak, self.bandwidth * intensity)

    def uncertainty(self, intensity: float | None) -> float | None:
        """Return the uncertainty of the ceiling that bounds an `intensity`.

        None where that is unknown. The intensity is in FLOP per byte; None for work that moves
        nothing.
        """
        ideal = self.ideal_intensity
        is_peak = intensity is None or (ideal is not None and intensity >= ideal)
        return self.peak_uncertainty if is_peak else self.bandwidth_uncertainty

    def is_memory_bound(self, intensity: float | None) -> bool | None:
        """Return whether an intensity is below the ideal one; None where one of them is unknown.

        Also None where the two are nearer than the uncertainties of the ceilings: either may be
        higher, and the ideal intensity is their ratio. So it is after a `disturbance`, by an
        unknown amount.
        """
        ideal = self.ideal_intensity
        if intensity is None or ideal is None or self.disturbance:
            return None
        least = ideal / (1.0 + (self.bandwidth_uncertainty or 0.0))
        highest = ideal * (1.0 + (self.peak_uncertainty or 0.0))
        return None if least <= intensity < highest else intensity < ideal


def ceilings_of(row: RunRow) -> Ceilings:
    """Return the roof of a run's device: as measured, else from its datasheet."""
    peak = _figures_of(row.conditions.get("peak_flops"))
    bandwidth = _figures_of(row.conditions.get("memory_bandwidth"))
    measured = _number(peak, "measured"), _number(bandwidth, "measured")
    datasheet = _number(peak, "datasheet"), _number(bandwidth, "datasheet")
    # Both of one kind: a measured peak over a datasheet's bandwidth is no meaningful intensity.
    kind = "measured" if all(measured) else "datasheet" if all(datasheet) else ""
    chosen = {"measured": measured, "datasheet": datasheet}.get(kind, (None, None))
    methods = (str(figures["method"]) for figures in (peak, bandwidth) if figures.get("method"))
    method = "; ".join(methods)
    if kind != "measured":
        # A datasheet's figures are limits by design: no device is faster than they are.
        limit = 0.0 if kind else None
        roof = Ceilings(*chosen, *datasheet, kind=kind, method=method)
        return replace(roof, peak_uncertainty=limit, bandwidth_uncertainty=limit)
    return Ceilings(
        *chosen,
        *datasheet,
        kind=kind,
        method=method,
        peak_uncertainty=_share(peak.get("uncertainty")),
        bandwidth_uncertainty=_share(bandwidth.get("uncertainty")),
        disturbance=_disturbance(peak, bandwidth),
    )


def _disturbance(peak: Mapping[str, Any], bandwidth: Mapping[str, Any]) -> str:
    """Return what disturbed either measurement, and which one unless it disturbed both."""
    causes = {
        name: str(cause)
        for name, figures in (("peak", peak), ("bandwidth", bandwidth))
        if (cause := figures.get("disturbance"))
    }
    if len(causes) == 2 and len(set(causes.values())) == 1:
        return causes["peak"]
    return " and ".join(f"{cause} (for the {name})" for name, cause in causes.items())


def roof_note(row: RunRow) -> str:
    """Return the caveat about a run's roof; '' where the roof was measured."""
    kind = ceilings_of(row).kind
    if kind == "measured":
        return ""
    if kind:
        return f"{row.run}: the roof comes from the datasheet; it was not measured on this machine"
    return (
        f"{row.run}: the peak FLOP/s and memory bandwidth of its device are unknown, so roof and "
        "memory_bound are empty"
    )


def roof_sentences(rows: Iterable[RunRow]) -> list[str]:
    """Return one sentence for each distinct roof of the runs, with the datasheet's figures."""
    names: dict[str, list[str]] = {}
    notes = []
    for row in rows:
        if roof := ceilings_of(row).description:
            names.setdefault(roof, []).append(row.run)
        else:
            notes.append(roof_note(row))
    return [
        *notes,
        *(f"{', '.join(runs)}: the roof is {roof}" for roof, runs in names.items()),
    ]


def _figures_of(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return {} if value is None else {"measured": value}


def _share(value: Any) -> float | None:
    """Return a share from stored conditions; None where there is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0.0 <= value <= 1.0 else None


def _number(figures: Mapping[str, Any], source: str) -> float | None:
    value = figures.get(source)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if value > 0 else None
