"""A layer that a reader chose, in a chart: its mark is outlined; each mark leads to its own. Pure.

A layer has the framework's number, which is the same in all tables of an evaluation.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from services.gateway.charts.theme import Theme
from services.gateway.pages.selection import Selection

Spec = dict[str, Any]

_MARKS = frozenset({"bar", "point", "circle"})
_OUTLINE_PX = 2.5
_DIMMED = 0.4
LEGEND: Spec = {"symbolStrokeWidth": 0, "symbolOpacity": 1}
"""How a legend stays as it is where marks are dimmed and outlined."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """The column of layers of a chart, the layer that was chosen, None for none.

    `address`: where a mark leads to, up to its layer's number; '' for a picture without links.
    """

    column: str
    layer: int | None
    address: str = ""


def choosing_of(selection: Selection, *, has_links: bool = True) -> Choosing | None:
    """Return what a `selection` of a table chooses; None for a table without layers.

    `has_links`: whether marks lead to the same page with their layer chosen.
    """
    if not selection.layer_column:
        return None
    query = selection.query(layer=None, page=1)
    address = f"{query or '?'}{'&' if query else ''}layer=" if has_links else ""
    return Choosing(selection.layer_column, selection.layer, address)


def choosable(spec: Spec, choosing: Choosing, theme: Theme) -> Spec:
    """Return a `spec` whose marks of layers lead to their layers, in the colours of `theme`.

    `choosing` says which layer is chosen, and by which column.
    """
    chosen = copy.deepcopy(spec)
    is_chosen = f"datum.{choosing.column} === {choosing.layer}"
    for part in _marks_in(chosen):
        encoding = part["encoding"]
        if choosing.layer is not None:
            encoding["stroke"] = {"condition": {"test": is_chosen, "value": theme.ink}}
            outline = {"test": is_chosen, "value": _OUTLINE_PX}
            encoding["strokeWidth"] = {"condition": outline, "value": 0}
            encoding["opacity"] = {"condition": {"test": is_chosen, "value": 1}, "value": _DIMMED}
        if choosing.address:
            encoding["href"] = {"field": "layer_address"}
    if choosing.address:
        number = f"datum.{choosing.column}"
        address = f"isValid({number}) && {number} >= 0 ? '{choosing.address}' + {number} : null"
        chosen["transform"] = [
            *chosen.get("transform", ()),
            {"calculate": address, "as": "layer_address"},
        ]
    return chosen


def _marks_in(spec: Spec) -> Iterator[Spec]:
    for plot in spec.get("vconcat", [spec]):
        inner = plot.get("spec", plot)
        for part in (inner, *inner.get("layer", ())):
            mark = part.get("mark", "")
            kind = mark.get("type") if isinstance(mark, dict) else mark
            if kind in _MARKS and "encoding" in part:
                yield part
