"""Parts of Vega-Lite specifications: axes with units, tooltips, facets, fields they read."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

Chart = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

_PREFIXES = (("1e12", "T"), ("1e9", "G"), ("1e6", "M"), ("1e3", "k"), ("1", ""))
_SCALES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "ns": (("1e9", " s"), ("1e6", " ms"), ("1e3", " µs"), ("1", " ns")),
        "By": (("1e9", " GB"), ("1e6", " MB"), ("1e3", " kB"), ("1", " B")),
        **{
            unit: tuple((factor, f" {prefix}{unit}") for factor, prefix in _PREFIXES)
            for unit in ("FLOP", "FLOP/s", "B/s")
        },
    }
)
"""The prefixed units in which a unit is shown, largest first."""

_LEADING_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
"""Logarithmic axes have labels at 1, 2 and 5 only."""


class Axis(NamedTuple):
    """A column of numbers with its title; `unit` is the column's (UCUM), or `share` for percent."""

    field: str
    title: str
    unit: str = ""

    @property
    def low(self) -> str:
        """The column of the lower end of its interval."""
        return f"{self.field}_low"

    @property
    def high(self) -> str:
        """The column of the upper end of its interval."""
        return f"{self.field}_high"


def label_of(value: str, unit: str, digits: str = "~g") -> str:
    """Return a Vega expression: the expression `value`, in `unit`, as text with a fit prefix.

    `digits` is a d3 format of the scaled number, and of one below 10,000 without a prefix: there,
    whole numbers, such as counts, have all their digits.
    """
    if unit == "share":
        return f"format({value}, '.0%')"
    if unit not in _SCALES:
        suffix = f" + ' {unit}'" if unit else ""
        plain = "'.4~r'" if digits == "~g" else f"{value} % 1 ? '{digits}' : 'd'"
        return f"(abs({value}) < 1e4 ? format({value}, {plain}) : format({value}, '.3~s')){suffix}"
    *larger, (_, smallest) = _SCALES[unit]
    choices = " : ".join(
        f"abs({value}) >= {factor} ? format({value} / {factor}, '{digits}') + '{name}'"
        for factor, name in larger
    )
    return f"({value} == 0 ? '0' : {choices} : format({value}, '{digits}') + '{smallest}')"


def number(axis: Axis, **properties: Any) -> Chart:
    """Return a channel of numbers, whose axis is labelled in prefixed units."""
    text = label_of("datum.value", axis.unit)
    if properties.get("scale", {}).get("type") == "log" and "base" not in properties["scale"]:
        text = f"indexof([1, 2, 5], {_LEADING_DIGIT}) >= 0 ? {text} : ''"
    labels = {"labelExpr": text}
    return {
        "field": axis.field,
        "type": "quantitative",
        "title": axis.title,
        "axis": labels,
        **properties,
    }


def names(field: str, title: str = "", **properties: Any) -> Chart:
    """Return a channel of names; without a `title` it is the column's."""
    text = title or field.replace("_", " ")
    return {"field": field, "type": "nominal", "title": text, **properties}


def places(column: tuple[str, str], **properties: Any) -> Chart:
    """Return a channel of ordered places, such as a layer's index: a column and its title."""
    text = "datum.label == 'null' ? 'none' : datum.label"
    axis = {"labelOverlap": True, "labelAngle": 0, "ticks": False, "labelExpr": text}
    return {
        "field": column[0],
        "type": "ordinal",
        "title": column[1],
        "axis": axis,
        **properties,
    }


def none_last(field: str) -> tuple[Chart, Chart]:
    """Return a transform, and the `sort` of `places`, that put rows without a place last.

    `field` is the column of the places, which are numbers.
    """
    order = {"calculate": f"isValid(datum.{field}) ? datum.{field} : 1e9", "as": "order_of_place"}
    return order, {"field": "order_of_place", "op": "min"}


def tips(*fields: str) -> list[Chart]:
    """Return the tooltip of a mark: the values of these fields."""
    return [{"field": field, "title": field.replace("_", " ")} for field in fields]


def valid(*fields: str) -> Chart:
    """Return the transform that leaves out rows without a value in one of these fields."""
    return {"filter": " && ".join(f"isValid(datum.{field})" for field in fields)}


def view(facet: str = "", resolve: Mapping[str, str] | None = None, **parts: Any) -> Chart:
    """Return a specification of one view, split into rows by the column `facet` if it has one.

    `parts` are a mark or layers with their encoding, and the transforms; `resolve` says which
    scales, by channel, the rows do not share.
    """
    if not facet:
        return {"$schema": SCHEMA, "width": "container", **parts}
    transform = {"transform": parts.pop("transform")} if "transform" in parts else {}
    by_channel = {"resolve": {"scale": dict(resolve)}} if resolve else {}
    return {
        "$schema": SCHEMA,
        **transform,
        "facet": {"row": {"field": facet, "type": "nominal", "title": None}},
        "spec": parts,
        **by_channel,
    }


def with_transforms(chart: Chart, *first: Chart, last: Sequence[Chart] = ()) -> Chart:
    """Return a chart with the transforms `first` before its own, and `last` behind them."""
    return {**chart, "transform": [*first, *chart.get("transform", ()), *last]}


def fields_of(chart: Any) -> set[str]:
    """Return every column that a specification reads: its fields without those it creates."""
    read, written = _fields_in(chart)
    return read - written


def _fields_in(part: Any) -> tuple[set[str], set[str]]:
    """Return the fields that a part reads, and those that its transforms create."""
    if isinstance(part, str):
        return set(re.findall(r"datum\.(\w+)", part)), set()
    if not isinstance(part, Mapping | Sequence):
        return set(), set()
    read: set[str] = set()
    written: set[str] = set()
    children: Sequence[Any] = []
    if isinstance(part, Sequence):
        children = part
    else:
        # A label's expression reads the axis' own values, not a row's.
        children = [child for name, child in part.items() if name != "labelExpr"]
        created = part.get("as", ())
        written |= {created} if isinstance(created, str) else set(created)
        read |= {part["field"]} if isinstance(part.get("field"), str) else set()
        read |= {*part.get("fold", ()), *part.get("groupby", ())}
    for child in children:
        deeper = _fields_in(child)
        read |= deeper[0]
        written |= deeper[1]
    return read, written
