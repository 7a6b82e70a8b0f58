"""Charts of points and lines: estimates with intervals, spreads, curves, series, boxes."""

from collections.abc import Mapping, Sequence

from services.analyzer.building.charts.parts import (
    Axis,
    Chart,
    names,
    number,
    places,
    tips,
    view,
)

_SMALL_AREA = 20
"""Square pixels."""
_INTERVAL: Chart = {"type": "rule", "style": "interval"}
_WHISKER: Chart = {"type": "rule", "style": "whisker"}
_LABELS: Chart = {"title": None, "labelLimit": 260}
_POINT: Chart = {"type": "point", "filled": True, "tooltip": True}


def estimates(
    x: tuple[str, str], y: Axis, color: str, *tooltip_fields: str, row_filter: str = ""
) -> Chart:
    """Return a point for each row with its 95% interval as a line, `color` groups side by side.

    `x` is a column of places and its title, `y` a column of numbers with bounds. `row_filter` is a
    Vega expression that selects rows, `tooltip_fields` are further columns in the tooltip.
    """
    position = {"x": places(x), "xOffset": {"field": color}, "color": names(color)}
    ends = {"y": number(y._replace(field=y.low)), "y2": {"field": y.high}}
    tooltip = tips(x[0], y.field, y.low, y.high, color, *tooltip_fields)
    return view(
        transform=[{"filter": row_filter}] if row_filter else [],
        layer=[
            {"mark": _WHISKER, "encoding": {**position, **ends}},
            {"mark": _POINT, "encoding": {**position, "y": number(y), "tooltip": tooltip}},
        ],
    )


def spreads(
    category: tuple[str, str],
    parts: Mapping[str, str],
    x: Axis,
    *tooltip_fields: str,
    extremes: tuple[str, str] | None = None,
    facet: str = "",
    is_logarithmic: bool = False,
) -> Chart:
    """Return a row for each name with the points of its `parts`, each with its 95% interval.

    `category` is a column and its title; `parts` maps columns with bounds to their labels; `x` is
    the title and unit of the values; a thin line joins the two columns of `extremes`;
    the axis is logarithmic with `is_logarithmic`.
    `facet` splits the chart into rows, `tooltip_fields` are further columns in the tooltip.
    """
    row = {"y": names(*category, sort=None, axis=_LABELS)}
    scale: Chart = {"scale": {"type": "log"} if is_logarithmic else {"zero": True}}
    labels = list(parts.values())
    layers: list[Chart] = []
    if extremes:
        ends = {
            "x": number(Axis(extremes[0], x.title, x.unit), **scale),
            "x2": {"field": extremes[1]},
        }
        above = _above_zero(extremes[0], is_logarithmic)
        layers.append({**above, "mark": _WHISKER, "encoding": {**row, **ends}})
    for column, label in parts.items():
        axis = Axis(column, x.title, x.unit)
        kind = {"datum": label, "type": "nominal", "sort": labels, "title": None}
        color = {"color": kind} if len(parts) > 1 else {}
        ends = {"x": number(axis._replace(field=axis.low), **scale), "x2": {"field": axis.high}}
        shown = tips(category[0], column, axis.low, axis.high, *tooltip_fields)
        layers += [
            {
                **_above_zero(axis.low, is_logarithmic),
                "mark": {"type": "rule", "style": "band"},
                "encoding": {**row, **color, **ends},
            },
            {
                **_above_zero(column, is_logarithmic),
                "mark": _POINT,
                "encoding": {**row, **color, "x": number(axis, **scale), "tooltip": shown},
            },
        ]
    return view(facet, {"y": "independent"}, layer=layers)


def _above_zero(column: str, is_logarithmic: bool) -> Chart:
    """Return the transform that leaves out what a logarithmic axis cannot show."""
    return {"transform": [{"filter": f"datum.{column} > 0"}]} if is_logarithmic else {}


def dumbbells(
    category: tuple[str, str],
    parts: tuple[tuple[str, str], tuple[str, str]],
    x: Axis,
    *tooltip_fields: str,
    facet: str = "run",
) -> Chart:
    """Return two points for each name, joined by a line: `parts` are two columns with labels.

    `category` is a column and its title, `x` the title and unit of the values; the axis is
    logarithmic, so that equal lengths are equal ratios. `facet` splits the chart into rows,
    `tooltip_fields` are further columns in the tooltip.
    """
    (first, first_label), (second, second_label) = parts
    row = {"y": names(*category, sort=None, axis=_LABELS)}
    labels = [first_label, second_label]
    scale = {"scale": {"type": "log"}}
    ends = {"x": number(Axis(first, x.title, x.unit), **scale), "x2": {"field": second}}
    layers: list[Chart] = [
        {
            "transform": [{"filter": f"datum.{first} > 0 && datum.{second} > 0"}],
            "mark": _WHISKER,
            "encoding": {**row, **ends},
        }
    ]
    for column, label in parts:
        position = {
            **row,
            "x": number(Axis(column, x.title, x.unit), **scale),
            "color": {"datum": label, "type": "nominal", "sort": labels, "title": None},
            "tooltip": tips(category[0], first, second, *tooltip_fields),
        }
        layers.append(
            {
                "transform": [{"filter": f"datum.{column} > 0"}],
                "mark": _POINT,
                "encoding": position,
            }
        )
    return view(facet, layer=layers)


def curves(
    x: tuple[str, str],
    y: Axis,
    color: str,
    *tooltip_fields: str,
    best: str = "",
    detail: str = "",
    has_interval: bool = False,
) -> Chart:
    """Return a line for each value of `color`, a column, over batch sizes to base 2.

    `x` is a column and its title, `y` a column of numbers; `best` is a column that is true for the
    row to mark, `detail` one of which each value has a line of its own; with `has_interval` the
    column has bounds, which are drawn. `tooltip_fields` are further columns in the tooltip.
    """
    batch = number(Axis(*x), scale={"type": "log", "base": 2, "nice": False})
    position = {"x": batch, "color": names(color)}
    if detail:
        position["detail"] = {"field": detail}
    tooltip = tips(x[0], y.field, color, *tooltip_fields)
    layers: list[Chart] = [
        {
            "mark": {"type": "line", "point": True, "tooltip": True},
            "encoding": {**position, "y": number(y), "tooltip": tooltip},
        }
    ]
    if has_interval:
        ends = {"y": number(y._replace(field=y.low)), "y2": {"field": y.high}}
        layers.insert(0, {"mark": _INTERVAL, "encoding": {**position, **ends}})
    if best:
        marked = {"transform": [{"filter": f"datum.{best} === true"}]}
        place = {"x": batch, "y": number(y)}
        text = {"text": {"value": "optimal"}}
        layers += [
            {**marked, "mark": {"type": "point", "style": "best"}, "encoding": place},
            {
                **marked,
                "mark": {"type": "text", "style": "note", "dy": -16},
                "encoding": {**place, **text},
            },
        ]
    return view(layer=layers)


def series(x: tuple[str, str], y: Axis, color: str, *tooltip_fields: str) -> Chart:
    """Return a line with intervals for each value of `color`, a column, over ordered places.

    `x` is a column and its title, `y` a column of numbers with bounds, `tooltip_fields` are further
    columns in the tooltip.
    """
    position = {"x": places(x), "color": names(color)}
    ends = {"y": number(y._replace(field=y.low), scale={"zero": False}), "y2": {"field": y.high}}
    shown = number(y, scale={"zero": False})
    tooltip = tips(x[0], y.field, y.low, y.high, color, *tooltip_fields)
    return view(
        layer=[
            {"mark": {"type": "rule", "style": "band"}, "encoding": {**position, **ends}},
            {
                "mark": {"type": "line", "point": True},
                "encoding": {**position, "y": shown, "tooltip": tooltip},
            },
        ]
    )


def points(
    x: Axis,
    y: Axis,
    color: str,
    tooltip_fields: Sequence[str] = (),
    size: tuple[str, str] = ("", ""),
) -> Chart:
    """Return a point for each row, coloured by the column `color`.

    `x` and `y` are columns of numbers, `tooltip_fields` further columns in the tooltip. The area is
    the column `size` (with its title), small where that is null; ('', '') gives all points one
    size.
    """
    return view(**_bubbles(x, y, color, tooltip_fields, size))


def front(
    x: Axis,
    y: Axis,
    color: str,
    tooltip_fields: Sequence[str],
    size: tuple[str, str],
    best: tuple[str, str],
) -> Chart:
    """Return `points` with a line through the best of them; `y` has its 95% intervals.

    `best` is the column that is true for those, and one by whose values the lines are apart; `x`,
    `color`, `tooltip_fields` and `size` are as for `points`. The axis of `y` begins near its least
    value.
    """
    column, apart = best
    axis = {"scale": {"zero": False, "padding": 12}}
    place = {"x": number(x), "y": number(y, **axis)}
    ends = {"x": number(x), "y": number(y._replace(field=y.low), **axis), "y2": {"field": y.high}}
    line: Chart = {
        "transform": [{"filter": f"datum.{column} == true"}],
        "mark": {"type": "line", "strokeDash": [4, 3], "opacity": 0.7, "color": "#8a8f98"},
        "encoding": {**place, "detail": {"field": apart}, "order": {"field": x.field}},
    }
    whiskers: Chart = {"mark": {**_WHISKER, "opacity": 0.5}, "encoding": ends}
    bubbles = _bubbles(x, y, color, (*tooltip_fields, column, apart), size)
    bubbles["encoding"]["y"] = place["y"]
    return view(layer=[line, whiskers, bubbles])


def _bubbles(
    x: Axis, y: Axis, color: str, tooltip_fields: Sequence[str], size: tuple[str, str]
) -> Chart:
    """Return the mark and the encoding of `points`, which has the same parameters."""
    field, title = size
    area_by_size = {
        "field": field,
        "type": "quantitative",
        "title": title,
        "legend": {"format": ".2~s"},
        "test": f"datum.{field} > 0",
    }
    area = {"size": {"condition": area_by_size, "value": _SMALL_AREA}} if field else {}
    # Vega-Lite leaves out rows with a null in a scaled column, unless `invalid` says otherwise.
    nulls = {"invalid": None} if field else {}
    return {
        "mark": {**_POINT, **nulls},
        "encoding": {
            "x": number(x),
            "y": number(y),
            "color": names(color),
            **area,
            "tooltip": tips(x.field, y.field, color, *tooltip_fields),
        },
    }


_PALE = {"name": "blues", "extent": [0.1, 0.6]}
"""Colours that dark figures are readable on, on a dark page too."""


def heat(x: tuple[str, str], y: tuple[str, str], color: Axis) -> Chart:
    """Return a heat map: a square for each row, at `x` and `y`, with the number `color` in it.

    `x` and `y` are columns of places with their titles.
    """
    position = {"x": places(x), "y": places(y)}
    shade = {
        "field": color.field,
        "type": "quantitative",
        "title": color.title,
        "scale": {"scheme": _PALE},
        # On a logarithmic scale its labels are the ends, with all their digits.
        "legend": {"format": ".3~r"},
    }
    return view(
        layer=[
            {
                "mark": {"type": "rect", "tooltip": True},
                "encoding": {**position, "color": shade, "tooltip": tips(x[0], y[0], color.field)},
            },
            {
                "mark": {"type": "text", "style": "square", "color": "#1a1c20"},
                "encoding": {
                    **position,
                    "text": {"field": color.field, "type": "quantitative", "format": ".3~r"},
                },
            },
        ]
    )


def boxes(x: tuple[str, str], y: Axis, color: str, *tooltip_fields: str) -> Chart:
    """Return a box plot: a box for each row, from its columns min, q1, median, q3 and max.

    `x` is a column of places and its title, `y` the title and unit of the values, `color` a column,
    `tooltip_fields` are further ones in the tooltip.
    """

    def place(field: str) -> Chart:
        return {"x": places(x), "y": number(Axis(field, y.title, y.unit), scale={"type": "log"})}

    gap = {"scale": {"paddingInner": 0.15}}

    box = {**place("q1"), "x": places(x, **gap), "y2": {"field": "q3"}, "color": names(color)}
    shown = tips(x[0], "median", "q1", "q3", "min", "max", *tooltip_fields)
    return view(
        "run",
        {"y": "independent"},
        transform=[{"filter": "datum.min > 0"}],
        layer=[
            {"mark": _WHISKER, "encoding": {**place("min"), "y2": {"field": "max"}}},
            {"mark": {"type": "bar"}, "encoding": {**box, "tooltip": shown}},
            {"mark": {"type": "tick", "style": "middle"}, "encoding": place("median")},
        ],
    )
