"""Fits the axes of a plot to its rows: labels, ranges, and the room that they take. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Spec = dict[str, Any]
Row = Mapping[str, Any]

CHARACTER_PX = 6.2
_LONGEST_LABEL_PX = 280

_DAY_S = 86400
_TIME_FORMATS = (
    (500 * _DAY_S, "%b %Y"),
    (10 * _DAY_S, "%d %b"),
    (600, "%d %b %H:%M"),
    (0, "%H:%M:%S"),
)
"""How times are labelled on an axis that spans at least a number of seconds, with five marks."""
_AT = "_at"
_STEPS_ALONG_AXIS = 120
"""Marks of one time are drawn side by side, this fraction of the axis apart."""


@dataclass(frozen=True, slots=True)
class Size:
    """Where a chart is drawn: its width in pixels, and whether that is narrow."""

    width: int

    @property
    def is_narrow(self) -> bool:
        """Whether it is as narrow as a phone."""
        return self.width < 500


def encodings_of(plot: Spec) -> list[Spec]:
    """Return the encodings of a plot and its layers."""
    inner = plot.get("spec", plot)
    parts = [inner, *inner.get("layer", ())]
    return [part["encoding"] for part in parts if "encoding" in part]


def few_places_px(plot: Spec, rows: Sequence[Row]) -> float:
    """Return the width of a chart of few places along it, so that bars stay bars; else infinity."""
    along: Spec = next((encoding["x"] for encoding in encodings_of(plot) if "x" in encoding), {})
    if along.get("type") != "ordinal":
        return math.inf
    count = len({row.get(along["field"]) for row in rows})
    return 70 * count + 60 if count < 12 else math.inf


def tick_batches(plot: Spec, rows: Sequence[Row]) -> None:
    """Have an axis of batch sizes, which are logarithmic to base 2, labelled at these sizes."""
    for encoding in encodings_of(plot):
        along = encoding.get("x", {})
        if along.get("scale", {}).get("base") == 2:
            values = sorted({row[along["field"]] for row in rows if row.get(along["field"])})
            along["axis"] = {**along["axis"], "values": values, "labelOverlap": True}


def date_times(plot: Spec, rows: Sequence[Row]) -> None:
    """Have an axis of times labelled as finely as its marks stand, so that no label repeats."""
    for encoding in encodings_of(plot):
        along = encoding.get("x", {})
        if along.get("type") == "temporal":
            times = [datetime.fromisoformat(str(row[along["field"]])) for row in rows]
            extent_s = (max(times) - min(times)).total_seconds()
            format_ = next(text for least_s, text in _TIME_FORMATS if extent_s >= least_s)
            along["axis"] = {**along["axis"], "format": format_}


def side_by_side(plot: Spec, rows: Sequence[Row], facet: str) -> list[Row]:
    """Return rows with the column `_at`, where marks of a `plot` of one time stand side by side.

    Loads of one evaluation have one time: their intervals would hide each other. `facet` is the
    column by which the plot is split. The axes of times are of `_at` from then on.
    """
    axes = [encoding["x"] for encoding in encodings_of(plot) if "x" in encoding]
    along = [axis for axis in axes if axis.get("type") == "temporal" and axis["field"] != _AT]
    if not along:
        return list(rows)
    field = along[0]["field"]
    for axis in along:
        axis["field"] = _AT
    times = [datetime.fromisoformat(str(row[field])) for row in rows]
    step = max((max(times) - min(times)) / _STEPS_ALONG_AXIS, timedelta(milliseconds=100))
    before: Counter[tuple[Any, Any]] = Counter()
    placed: list[Row] = []
    for row, time in zip(rows, times, strict=True):
        key = (row.get(facet), row[field])
        placed.append({**row, _AT: (time + before[key] * step).isoformat()})
        before[key] += 1
    return placed


def widen_one_value(plot: Spec, rows: Sequence[Row]) -> None:
    """Give an axis that need not begin at zero a range of 10% where all its values are equal."""
    encodings = [encoding.get("y", {}) for encoding in encodings_of(plot)]
    upward = [y for y in encodings if y.get("scale", {}).get("zero") is False]
    fields = {y["field"] for y in upward} | {f"{y['field']}_high" for y in upward}
    values = {row[field] for row in rows for field in fields if row.get(field) is not None}
    if len(values) == 1 and (value := float(values.pop())):
        for y in upward:
            ends = sorted((0.95 * value, 1.05 * value))
            y["scale"] = {**y["scale"], "domain": ends, "nice": True}


def join_offsets(plot: Spec, rows: Sequence[Row], facet: str) -> None:
    """Draw bars of a `plot` in the middle of their places where no place has several `rows`.

    Each plot of the column `facet` is considered by itself.
    """
    for encoding in encodings_of(plot):
        field = encoding.get("y", {}).get("field")
        places = [(row.get(facet), row.get(field)) for row in rows]
        is_column = encoding.get("yOffset", {}).get("field") in (rows[0] if rows else {})
        if is_column and len(places) == len(set(places)):
            del encoding["yOffset"]


def label_px(rows: Sequence[Row], place: Spec, size: Size) -> int:
    """Return the width in pixels of the labels of an axis, the `place` of `rows`, at a `size`."""
    longest = max((len(str(row.get(place["field"], ""))) for row in rows), default=0)
    limit = 120 if size.is_narrow else _LONGEST_LABEL_PX
    return min(limit, int(longest * CHARACTER_PX) + 10) if longest else limit // 2
