"""Charts of tables as Vega-Lite 5 specifications without data: the page adds the rows.

Each function returns a new map. Fields are column names of the chart's table, or are created
by a `transform` of the same specification. Numbers stay in the table's units.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Chart = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_SMALL_AREA = 20
"""Square pixels."""
_SI = {"format": ".3~s"}


def _specification(**parts: Any) -> Chart:
    # Only a single view may take its container's width: not one that is split into facets.
    is_split = {"row", "column"} & parts.get("encoding", {}).keys()
    return {"$schema": SCHEMA, **({} if is_split else {"width": "container"}), **parts}


def number(field: str, title: str, **properties: Any) -> Chart:
    """Return a channel of numbers, labelled with SI prefixes."""
    return {"field": field, "type": "quantitative", "title": title, "axis": _SI, **properties}


def kinds(field: str, title: str = "", **properties: Any) -> Chart:
    """Return a channel of names."""
    return {"field": field, "type": "nominal", **({"title": title} if title else {}), **properties}


def tips(*fields: str) -> list[Chart]:
    """Return the tooltip of a mark: the values of these fields."""
    return [{"field": field} for field in fields]


def bars(x: tuple[str, str], y: tuple[str, str], *tooltip_fields: str, facet: str = "run") -> Chart:
    """Return a chart with a bar for each row.

    `x` (ordinal) and `y` (a number) are each a column and its title; `tooltip_fields` are further
    columns in the tooltip; `facet` is the column that splits the chart into rows.
    """
    return _specification(
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}},
            "y": number(*y),
            "row": kinds(facet),
            "tooltip": tips(x[0], y[0], *tooltip_fields),
        },
    )


def boxes(x: tuple[str, str], title: str, *tooltip_fields: str) -> Chart:
    """Return a box plot: a box for each row, from its columns min, q1, median, q3 and max."""
    place = {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}}
    whisker = {"x": place, "y": number("min", title), "y2": {"field": "max"}}
    box = {"x": place, "y": number("q1", title), "y2": {"field": "q3"}}
    middle = {"x": place, "y": number("median", title)}
    return _specification(
        layer=[
            {"mark": {"type": "rule"}, "encoding": whisker},
            {
                "mark": {"type": "bar"},
                "encoding": {**box, "tooltip": tips(x[0], "median", "q1", "q3", *tooltip_fields)},
            },
            {"mark": {"type": "tick", "color": "black"}, "encoding": middle},
        ]
    )


def estimates(
    x: tuple[str, str],
    y: tuple[str, str],
    color: str,
    *tooltip_fields: str,
    row_filter: str = "",
    is_in_order: bool = False,
) -> Chart:
    """Return a point for each row with its 95 % interval as a line, `color` groups side by side.

    `x` and `y` are columns with their titles; the columns `y`_low and `y`_high exist too.
    `row_filter` is a Vega expression that selects rows. `x` is sorted, unless `is_in_order`: then
    it has the order of the table. `tooltip_fields` are further columns in the tooltip.
    """
    unsorted: Chart = {"sort": None} if is_in_order else {}
    place = {"field": x[0], "type": "ordinal", "title": x[1], **unsorted}
    position = {"x": place, "xOffset": {"field": color}, "color": kinds(color)}
    ends = {"y": number(f"{y[0]}_low", y[1]), "y2": {"field": f"{y[0]}_high"}}
    tooltip = tips(x[0], *y[:1], f"{y[0]}_low", f"{y[0]}_high", color, *tooltip_fields)
    return _specification(
        **({"transform": [{"filter": row_filter}]} if row_filter else {}),
        layer=[
            {"mark": {"type": "rule"}, "encoding": {**position, **ends}},
            {
                "mark": {"type": "point", "filled": True},
                "encoding": {**position, "y": number(*y), "tooltip": tooltip},
            },
        ],
    )


def percentiles(
    x: tuple[str, str], parts: Mapping[str, str], title: str, *tooltip_fields: str
) -> Chart:
    """Return a column of points for each row at its `x`; `parts` maps columns to their labels.

    `title` labels the axis of values; `tooltip_fields` are further columns in the tooltip.
    """
    named = " : ".join(f"datum.part == '{c}' ? '{t}'" for c, t in parts.items())
    place = {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}}
    return _specification(
        transform=[
            {"fold": list(parts), "as": ["part", "amount"]},
            {"calculate": f"{named} : ''", "as": "what"},
            {"filter": "isValid(datum.amount)"},
        ],
        mark={"type": "point", "filled": True, "tooltip": True},
        encoding={
            "x": place,
            "y": number("amount", title),
            "color": {**kinds("what"), "sort": list(parts.values())},
            "tooltip": tips(x[0], "what", "amount", *tooltip_fields),
        },
    )


def pie(share: tuple[str, str], kind: str, facet: str = "run") -> Chart:
    """Return a pie for each `facet`: `share` (a column and its title) by `kind`, a column."""
    return _specification(
        mark={"type": "arc", "tooltip": True},
        encoding={
            "theta": {"field": share[0], "type": "quantitative", "title": share[1], "stack": True},
            "color": kinds(kind),
            "column": kinds(facet),
            "tooltip": tips(kind, share[0]),
        },
    )


def stacked(
    x: tuple[str, str],
    parts: Mapping[str, str],
    title: str,
    *tooltip_fields: str,
    facet: str = "run",
) -> Chart:
    """Return stacked bars, normalised to 1; `parts` maps columns to their labels.

    `x` is a column and its title, `title` labels the axis of values, `facet` splits the chart into
    rows, `tooltip_fields` are further columns in the tooltip.
    """
    named = " : ".join(f"datum.part == '{c}' ? '{t}'" for c, t in parts.items())
    return _specification(
        transform=[
            {"fold": list(parts), "as": ["part", "amount"]},
            {"calculate": f"{named} : ''", "as": "what"},
            {"filter": "datum.amount > 0"},
        ],
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}},
            "y": {
                "field": "amount",
                "type": "quantitative",
                "stack": "normalize",
                "title": title,
            },
            "color": kinds("what"),
            "row": kinds(facet),
            "tooltip": tips(x[0], "what", *tooltip_fields),
        },
    )


def side_by_side(x: tuple[str, str], columns: Mapping[str, str], facet: str = "run") -> Chart:
    """Return bar charts below each other, one for each of `columns`, over the same `x`.

    `x` (ordinal) is a column and its title, `columns` maps columns to their titles, and `facet` is
    the column that splits each chart into rows.
    """
    plots = [bars(x, (column, title), facet=facet) for column, title in columns.items()]
    for plot in plots:
        del plot["$schema"]
    return {"$schema": SCHEMA, "vconcat": plots}


def roofline(label: str, *tooltip_fields: str, color: str = "memory_bound") -> Chart:
    """Return a roofline: throughput over intensity, both logarithmic, with each row's roof.

    The table has the columns intensity, throughput and roof; rows without an intensity above 0 are
    left out. `label` and `tooltip_fields` are columns in the tooltip, `color` a column.
    """
    x = number("intensity", "FLOP per byte of DRAM", scale={"type": "log"})
    y = number("throughput", "FLOP/s", scale={"type": "log"})
    roof = number("roof", "FLOP/s", scale={"type": "log"})
    return _specification(
        transform=[{"filter": "datum.intensity > 0 && datum.throughput > 0"}],
        layer=[
            {
                "transform": [{"filter": "datum.roof > 0"}],
                "mark": {"type": "line", "color": "gray", "interpolate": "linear"},
                "encoding": {"x": x, "y": roof},
            },
            {
                "mark": {"type": "point", "filled": True, "tooltip": True},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": kinds(color, color.replace("_", " ")),
                    "tooltip": tips(label, "intensity", "throughput", "roof", *tooltip_fields),
                },
            },
        ],
    )


def lines(x: tuple[str, str], y: tuple[str, str], color: str, *tooltip_fields: str) -> Chart:
    """Return a line for each value of `color`, a column.

    `x` (batch sizes, logarithmic to base 2) and `y` (a number) are each a column and its title;
    `tooltip_fields` are further columns in the tooltip.
    """
    return _specification(
        mark={"type": "line", "point": True, "tooltip": True},
        encoding={
            "x": number(*x, scale={"type": "log", "base": 2}),
            "y": number(*y),
            "color": kinds(color),
            "tooltip": tips(x[0], y[0], color, *tooltip_fields),
        },
    )


def points(
    x: tuple[str, str],
    y: tuple[str, str],
    color: str,
    tooltip_fields: Sequence[str] = (),
    size: tuple[str, str] = ("", ""),
) -> Chart:
    """Return a point for each row, coloured by the column `color`.

    `x` and `y` (numbers) are each a column and its title, `tooltip_fields` further columns in the
    tooltip. The area is the column `size` (with its title), small where that is null; ('', '')
    gives all points one size.
    """
    field, title = size
    area_by_size = {
        "field": field,
        "type": "quantitative",
        "title": title,
        "test": f"datum.{field} > 0",
    }
    area = {"size": {"condition": area_by_size, "value": _SMALL_AREA}} if field else {}
    # Vega-Lite leaves out rows with a null in a scaled column, unless `invalid` says otherwise.
    nulls = {"invalid": None} if field else {}
    return _specification(
        mark={"type": "point", "filled": True, "tooltip": True, **nulls},
        encoding={
            "x": number(*x),
            "y": number(*y),
            "color": kinds(color),
            **area,
            "tooltip": tips(x[0], y[0], color, *tooltip_fields),
        },
    )


def heat(x: tuple[str, str], y: tuple[str, str], color: tuple[str, str]) -> Chart:
    """Return a heat map: a square for each row, at `x` and `y`, coloured by the number `color`.

    Each is a column and its title; `x` and `y` are ordinal.
    """
    return _specification(
        mark={"type": "rect", "tooltip": True},
        encoding={
            "x": {"field": x[0], "type": "ordinal", "title": x[1]},
            "y": {"field": y[0], "type": "ordinal", "title": y[1]},
            "color": {"field": color[0], "type": "quantitative", "title": color[1]},
            "tooltip": tips(x[0], y[0], color[0]),
        },
    )


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
    children: Sequence[Any] = list(part.values()) if isinstance(part, Mapping) else part
    if isinstance(part, Mapping):
        created = part.get("as", ())
        written |= {created} if isinstance(created, str) else set(created)
        read |= {part["field"]} if isinstance(part.get("field"), str) else set()
        read |= set(part.get("fold", ()))
    for child in children:
        deeper = _fields_in(child)
        read |= deeper[0]
        written |= deeper[1]
    return read, written
