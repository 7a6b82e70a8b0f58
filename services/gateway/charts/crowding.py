"""Keeps the marks of a line over time apart where there are many of them. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from services.gateway.charts.axes import Row, Size, Spec, encodings_of

_POINT_AREA, _LEAST_POINT_AREA = 46.0, 6.0
_POINT_PX = 18.0
"""Points that are nearer to each other along their line are drawn smaller."""
_LABEL_PX, _LABEL_HEIGHT_PX = 42.0, 48.0
"""The room of a label, which stands above or below its point."""
_HEIGHT_PX = 260.0


def shrink_points(plot: Spec, rows: Sequence[Row], facet: str, size: Size) -> None:
    """Draw the points on the lines of a `plot` the smaller, the more `rows` the longest line has.

    Each value of the column `facet` has lines of its own, as wide as `size`.
    """
    inner = plot.get("spec", plot)
    for layer in (inner, *inner.get("layer", ())):
        mark = layer.get("mark")
        if isinstance(mark, dict) and mark.get("point") is True:
            color = layer["encoding"].get("color", {}).get("field", "")
            points = Counter((row.get(facet), row.get(color)) for row in rows)
            apart_px = size.width / max(points.values())
            area = max(_LEAST_POINT_AREA, _POINT_AREA * min(1.0, apart_px / _POINT_PX))
            layer["mark"] = {**mark, "point": {"size": round(area, 1)}}


def without_crowded_labels(plot: Spec, rows: Sequence[Row], facet: str, size: Size) -> list[Row]:
    """Return rows whose labels on an axis of times stand apart: of the others the text is ''.

    Those stay that are the largest by the column of their channel `order`. Each value of the
    column `facet` has a plot of its own, as wide as `size`.
    """
    labels = [encoding for encoding in encodings_of(plot) if "text" in encoding]
    if not labels or labels[0]["x"].get("type") != "temporal":
        return list(rows)
    text, order, along, upward = (labels[0][name]["field"] for name in ("text", "order", "x", "y"))
    drawn = [dict(row) for row in rows]
    across_px = _pixels([_second(row[along]) for row in rows], size.width)
    plots: defaultdict[Any, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        plots[row.get(facet)].append(number)
    for numbers in plots.values():
        up_px = _pixels([rows[number][upward] for number in numbers], _HEIGHT_PX)
        places = {n: (across_px[n], up) for n, up in zip(numbers, up_px, strict=True)}
        labelled = [number for number in numbers if rows[number][text]]
        labelled.sort(key=lambda number: -abs(rows[number][order]))
        for number in _crowded(labelled, places):
            drawn[number][text] = ""
    return list(drawn)


def _crowded(numbers: Sequence[int], places: Mapping[int, tuple[float, float]]) -> Iterator[int]:
    """Yield the numbers of labels that have no room beside those before them."""
    standing: list[tuple[float, float]] = []
    for number in numbers:
        x, y = places[number]
        if any(abs(x - at) < _LABEL_PX and abs(y - up) < _LABEL_HEIGHT_PX for at, up in standing):
            yield number
        else:
            standing.append((x, y))


def _second(time: Any) -> float:
    return datetime.fromisoformat(str(time)).timestamp()


def _pixels(values: Sequence[float], length_px: float) -> list[float]:
    """Return where `values` are on an axis of a length."""
    least = min(values)
    extent = (max(values) - least) or 1.0
    return [(value - least) / extent * length_px for value in values]
