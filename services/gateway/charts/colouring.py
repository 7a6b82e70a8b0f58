"""Which colour a chart gives to which name, and which names are summed up as other. Pure."""

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Any

from services.gateway.pages.colours import HUES, OTHER, SERIES, colour_of

Spec = dict[str, Any]
Row = Mapping[str, Any]

MOST_COLOURS = 10
_BY_NAME = frozenset({"type", "kind", "name"})
"""Columns whose values have a colour of their own, the same in every chart."""

_RESULTS: Mapping[str, str] = MappingProxyType(
    {"slower": HUES["orange"][0], "faster": HUES["blue"][0], "same": OTHER, "unknown": OTHER}
)
"""The colours of results of a comparison, as the pages have them: never red against green."""
_YES_OR_NO = "datum.label == 'true' ? 'yes' : datum.label == 'false' ? 'no' : 'unknown'"


def coloured(plot: Spec, all_rows: Sequence[Row], rows: Sequence[Row]) -> Spec:
    """Return a `plot` with a colour for each name of the column that its marks are coloured by.

    Colours are given by `all_rows`, so they stay when fewer `rows` are drawn; the legend has those
    that are drawn, at most `MOST_COLOURS` and one for the others.
    """
    inner = plot.get("spec", plot)
    parts = [inner, *inner.get("layer", ())]
    for part in parts:
        encoding = part.get("encoding", {})
        channel = encoding.get("color")
        if channel is None or channel.get("type") != "nominal":
            continue
        field = channel.get("field")
        if field is None or field not in (all_rows[0] if all_rows else {}):
            continue
        totals = _totals(rows, field, encoding)
        channel.pop("sort", None)
        if len(totals) > MOST_COLOURS + 1:
            _sum_up(part, channel, field, list(totals))
        else:
            channel["scale"] = _scale(field, [*totals], all_rows)
        if all(isinstance(value, bool) or value is None for value in totals):
            channel["legend"] = {"labelExpr": _YES_OR_NO}
        is_labelled = encoding.get("y", {}).get("field") == field
        if len(totals) < 2 or is_labelled:
            channel["legend"] = None
        elif field in _BY_NAME:
            text = "datum.label && datum.label != 'null' ? datum.label : 'unknown'"
            channel |= {"title": None, "legend": {"labelExpr": text}}
    return plot


def _totals(rows: Sequence[Row], field: str, encoding: Spec) -> dict[Any, float]:
    """Return the names of a column, those with the largest sum first."""
    amounts = [
        channel["field"]
        for channel in (encoding.get("y", {}), encoding.get("x", {}))
        if channel.get("type") == "quantitative"
    ]
    totals: dict[Any, float] = {}
    for row in rows:
        value = row.get(amounts[0]) if amounts else None
        amount = float(value) if isinstance(value, int | float) else 0.0
        totals[row.get(field)] = totals.get(row.get(field), 0.0) + amount
    if field not in _BY_NAME:
        return totals
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def _scale(field: str, names: Sequence[Any], all_rows: Sequence[Row]) -> Spec:
    if field in _BY_NAME:
        colours = {name: colour_of(str(name or "")) for name in names}
    elif field == "result":
        colours = {name: _RESULTS.get(str(name), OTHER) for name in names}
    else:
        every = dict.fromkeys(row.get(field) for row in all_rows)
        colours = dict(zip(every, cycle(SERIES), strict=False))
    return {"domain": list(names), "range": [*map(colours.__getitem__, names)]}


def _sum_up(part: Spec, channel: Spec, field: str, names: Sequence[Any]) -> None:
    """Colour the largest names and all others together as one."""
    largest = [str(name) for name in names[:MOST_COLOURS]]
    others_name = f"other ({len(names) - MOST_COLOURS})"
    # A list in JSON is one in Vega's expressions, whatever the names are.
    group = f"indexof({json.dumps(largest)}, datum.{field}) >= 0 ? datum.{field} : '{others_name}'"
    part.setdefault("transform", []).append({"calculate": group, "as": "colour_group"})
    if field == "name":
        colours = [SERIES[place % len(SERIES)] for place in range(len(largest))]
    else:
        colours = [colour_of(name) for name in largest]
    channel |= {
        "field": "colour_group",
        "scale": {
            "domain": [*largest, others_name],
            "range": [*colours, OTHER],
        },
    }
