"""Charts of bars: layers in their order, ranked names, parts that add up."""

from collections.abc import Mapping, Sequence
from typing import Any

from services.analyzer.building.charts.parts import (
    SCHEMA,
    Axis,
    Chart,
    label_of,
    names,
    none_last,
    number,
    places,
    tips,
    valid,
    view,
)

_INTERVAL: Chart = {"type": "rule", "style": "interval"}
_LABELS: Chart = {"title": None, "labelLimit": 260}


def layer_bars(
    y: Axis | Sequence[Axis],
    *tooltip_fields: str,
    x: tuple[str, str] = ("index", "Layer"),
    color: str = "type",
    has_interval: bool = True,
) -> Chart:
    """Return a bar for each layer in their order, coloured by type, with its 95% interval.

    `y` is a column of numbers, or several for plots below each other; rows of the same `x` (a
    column and its title) and run are stacked; runs share an axis, so that they compare.
    `tooltip_fields` are further columns in the tooltip, `color` a column, '' for one colour;
    without `has_interval` the column has no bounds.
    """
    axes = [y] if isinstance(y, Axis) else list(y)
    plots = [_layer_plot(axis, tooltip_fields, x, color, has_interval) for axis in axes]
    if len(plots) == 1:
        return view("run", **plots[0])
    views = [view("run", **plot) for plot in plots]
    for plot in views:
        del plot["$schema"]
        plot["spec"]["height"] = 110
    return {"$schema": SCHEMA, "vconcat": views}


def _layer_plot(
    y: Axis, tooltip_fields: Sequence[str], x: tuple[str, str], color: str, has_interval: bool
) -> Chart:
    order, sort = none_last(x[0])
    position = {"x": places(x, sort=sort)}
    bar = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            **position,
            "y": number(y),
            **({"color": names(color)} if color else {}),
            "tooltip": tips(x[0], y.field, *filter(None, [color]), *tooltip_fields),
        },
    }
    ends = {**position, "y": number(y._replace(field=y.low)), "y2": {"field": y.high}}
    interval = {"mark": _INTERVAL, "encoding": ends}
    return {"transform": [order], "layer": [bar, interval] if has_interval else [bar]}


def ranked(
    category: tuple[str, str],
    x: Axis,
    *tooltip_fields: str,
    color: str = "",
    facet: str = "run",
    has_interval: bool = True,
) -> Chart:
    """Return horizontal bars, the longest first, each with its value and its 95% interval.

    `category` (names) is a column and its title, `x` a column of numbers; `color` and `facet` are
    columns, `tooltip_fields` further ones in the tooltip; without `has_interval` the column has no
    bounds.
    """
    longest = {"field": x.field, "op": "max", "order": "descending"}
    place = {"y": names(*category, sort=longest, axis=_LABELS)}
    return _horizontal(place, x, (category[0], *tooltip_fields), color, facet, has_interval)


def bars(
    category: tuple[str, str],
    x: Axis,
    *tooltip_fields: str,
    color: str = "",
    beside: str = "",
    facet: str = "run",
    has_interval: bool = True,
) -> Chart:
    """Return horizontal bars in the order of the table, with their values and 95% intervals.

    Rows of the same `category` (a column and its title) are side by side, by the column `beside`.
    `x` is a column of numbers, `color` and `facet` are columns, `tooltip_fields` further ones in
    the tooltip; without `has_interval` the column has no bounds.
    """
    place = {"y": names(*category, sort=None, axis=_LABELS)}
    if beside:
        place["yOffset"] = {"field": beside, "type": "nominal", "sort": None}
    return _horizontal(place, x, (category[0], *tooltip_fields), color, facet, has_interval)


def _horizontal(
    place: Chart, x: Axis, shown: Sequence[str], color: str, facet: str, has_interval: bool
) -> Chart:
    bar = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            **place,
            "x": number(x, stack=None),
            **({"color": names(color)} if color else {}),
            "tooltip": tips(x.field, *shown),
        },
    }
    ends = {**place, "x": number(x._replace(field=x.low)), "x2": {"field": x.high}}
    interval = [{"mark": _INTERVAL, "encoding": ends}] if has_interval else []
    text = {"text": {"field": "figure", "type": "nominal"}}
    end = {**place, "x": number(x._replace(field="end_of_bar"))}
    figures = {"mark": {"type": "text", "style": "figure"}, "encoding": {**end, **text}}
    furthest = f"datum.{x.high}, datum.{x.field}" if has_interval else f"datum.{x.field}"
    return view(
        facet,
        {"y": "independent"},
        transform=[
            valid(x.field),
            {"calculate": f"max({furthest}, 0)", "as": "end_of_bar"},
            {"calculate": label_of(f"datum.{x.field}", x.unit, ".3~r"), "as": "figure"},
        ],
        layer=[bar, *interval, figures],
    )


def stacked(
    category: tuple[str, str],
    parts: Mapping[str, str],
    x: Axis,
    *tooltip_fields: str,
    is_normalised: bool = False,
    facet: str = "run",
) -> Chart:
    """Return vertical bars of parts that add up; `parts` maps columns to their labels.

    `category` (ordinal) is a column and its title, `x` the title and unit of the amounts;
    bars that are shares of 1 have `is_normalised`. `facet` splits the chart into rows,
    `tooltip_fields` are further columns in the tooltip.
    """
    stack = "normalize" if is_normalised else "zero"
    amount = Axis("amount", x.title, "share" if is_normalised else x.unit)
    order, sort = none_last(category[0])
    return view(
        facet,
        transform=[order, *_folded(parts), {"filter": "datum.amount > 0"}],
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": places(category, sort=sort),
            "y": number(amount, stack=stack),
            "color": names("what", " ", sort=list(parts.values())),
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": tips(category[0], "what", "amount", *tooltip_fields),
        },
    )


def grouped_bars(
    category: tuple[str, str],
    parts: Mapping[str, str],
    x: Axis,
    *tooltip_fields: str,
    facet: str = "run",
) -> Chart:
    """Return horizontal bars side by side for each name; `parts` maps columns to their labels.

    `category` is a column and its title, `x` the title and unit of the amounts. `facet` splits the
    chart into rows, `tooltip_fields` are further columns in the tooltip.
    """
    amount = Axis("amount", x.title, x.unit)
    row = {"y": names(*category, sort=None, axis=_LABELS)}
    beside = {**row, "yOffset": {"field": "what", "sort": list(parts.values())}}
    bar = {
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            **beside,
            "x": number(amount),
            "color": names("what", " ", sort=list(parts.values())),
            "tooltip": tips(category[0], "what", "amount", *tooltip_fields),
        },
    }
    figures = {
        "mark": {"type": "text", "style": "figure"},
        "encoding": {
            **beside,
            "x": number(amount),
            "text": {"field": "figure", "type": "nominal"},
        },
    }
    text = label_of("datum.amount", x.unit, ".3~r")
    return view(
        facet,
        transform=[*_folded(parts), valid("amount"), {"calculate": text, "as": "figure"}],
        layer=[bar, figures],
    )


def histogram(
    ends: tuple[str, str], y: Axis, title: str, *tooltip_fields: str, facet: str = "run"
) -> Chart:
    """Return a bar for each bucket of times, whose columns `ends` say from where to where it is.

    `y` is the column of counts, `title` says what the times are, on a logarithmic axis. `facet`
    splits the chart into rows, `tooltip_fields` are further columns in the tooltip.
    """
    along = number(Axis(ends[0], title, "ns"), scale={"type": "log"})
    up = number(y)
    up["axis"]["tickMinStep"] = 1  # half a query is none
    return view(
        facet,
        {"y": "independent"},
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": along,
            "x2": {"field": ends[1]},
            "y": up,
            "y2": {"datum": 0},
            "tooltip": tips(*ends, y.field, *tooltip_fields),
        },
    )


def _folded(parts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the transforms that make a row of each part: amount, what, and its place."""
    named = " : ".join(f"datum.part == '{column}' ? '{label}'" for column, label in parts.items())
    listed = ", ".join(f"'{column}'" for column in parts)
    return [
        {"fold": list(parts), "as": ["part", "amount"]},
        {"calculate": f"{named} : ''", "as": "what"},
        {"calculate": f"indexof([{listed}], datum.part)", "as": "place"},
    ]
