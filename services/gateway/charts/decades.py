"""Logarithmic axes that end near their values, with few lines. Pure.

Left alone such an axis goes on to whole decades, and has a line at each digit of each of them.
"""

import math
from collections.abc import Sequence

from services.gateway.charts.axes import Row, Size, Spec, encodings_of

_ROUND = (1, 2, 5)
_MOST_MARKS, _FEW_MARKS = 9, 5
_PADDING_PX = 6
_BEYOND = 1000.0
"""By this factor an axis may go beyond its values where its ends are not known here."""


def tighten_decades(plot: Spec, rows: Sequence[Row], facet: str, size: Size) -> None:
    """Set the ends and the marks of the logarithmic axes of a `plot` by its `rows`.

    `facet` is the column by which the plot is split into several, '' where it is not; a narrow
    `size` has fewer marks. Ends that are not known here, as of roofs and of axes that differ by
    facet, stay those of the values that are drawn.
    """
    resolved = plot.get("resolve", {}).get("scale", {}) if facet else {}
    for channel in ("x", "y"):
        axes = [encoding[channel] for encoding in encodings_of(plot) if channel in encoding]
        axes = [axis for axis in axes if _is_in_decades(axis)]
        others = [encoding.get(f"{channel}2", {}) for encoding in encodings_of(plot)]
        fields = {place["field"] for place in (*axes, *others) if "field" in place}
        values = [row[field] for row in rows for field in fields if (row.get(field) or 0) > 0]
        if not axes or not values:
            continue
        ends_known = resolved.get(channel) != "independent" and not fields & _calculated_in(plot)
        most_marks = _FEW_MARKS if size.is_narrow or (facet and channel == "y") else _MOST_MARKS
        for axis in axes:
            _tighten(axis, min(values), max(values), most_marks, ends_known=ends_known)


def _is_in_decades(axis: Spec) -> bool:
    scale = axis.get("scale", {})
    return scale.get("type") == "log" and "base" not in scale


def _calculated_in(plot: Spec) -> set[str]:
    """Return the fields that the layers of a `plot` make, whose values are in no row."""
    inner = plot.get("spec", plot)
    parts = (plot, inner, *inner.get("layer", ()))
    steps = [step for part in parts for step in part.get("transform", ())]
    return {step["as"] for step in steps if "calculate" in step}


def _tighten(axis: Spec, least: float, most: float, most_marks: int, *, ends_known: bool) -> None:
    scale, wide = axis["scale"], 1.0 if ends_known else _BEYOND
    numbers = round_numbers(least, most)
    marks = round_numbers(least / wide, most * wide)
    if len(numbers) > most_marks:
        marks = decades(marks[0], marks[-1], math.log10(most / least) / most_marks)
    if scale.get("nice", True):
        own = {"domain": [numbers[0], numbers[-1]]} if ends_known else {"padding": _PADDING_PX}
        axis["scale"] = {**scale, "nice": False, **own}
    axis["axis"] = {**axis["axis"], "values": marks, "tickCount": len(marks)}


def round_numbers(least: float, most: float) -> list[float]:
    """Return 1, 2 and 5 of each decade, from the last up to `least` to the first from `most` on."""
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
    numbers = [float(f"{digit}e{power}") for power in powers for digit in _ROUND]
    begin = max(place for place, number in enumerate(numbers) if number <= least)
    end = min(place for place, number in enumerate(numbers) if number >= most and place > begin)
    return numbers[begin : end + 1]


def decades(least: float, most: float, apart: float) -> list[float]:
    """Return the powers of ten from `least` to `most`, at least this many decades `apart`."""
    first, last = math.ceil(math.log10(least) - 1e-9), math.floor(math.log10(most) + 1e-9)
    return [float(f"1e{power}") for power in range(first, last + 1, math.ceil(apart))]
