"""Charts of tables as Vega-Lite 5 specifications without data: the page joins the rows.

Pure: each function returns a new map. Fields are column names of the table they belong to, or made
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


def _whole(**parts: Any) -> Chart:
    # Only a single view may take its container's width: not one that is split into facets.
    is_split = {"row", "column"} & parts.get("encoding", {}).keys()
    return {"$schema": SCHEMA, **({} if is_split else {"width": "container"}), **parts}


def number(field: str, title: str, **more: Any) -> Chart:
    """Return a channel of numbers, labelled with SI prefixes."""
    return {"field": field, "type": "quantitative", "title": title, "axis": _SI, **more}


def kinds(field: str, title: str = "", **more: Any) -> Chart:
    """Return a channel of names."""
    return {"field": field, "type": "nominal", **({"title": title} if title else {}), **more}


def tips(*fields: str) -> list[Chart]:
    """Return what is shown of a mark that is pointed at."""
    return [{"field": field} for field in fields]


def bars(x: tuple[str, str], y: tuple[str, str], *shown: str, facet: str = "run") -> Chart:
    """Return a bar a row: `x` a place in an order, `y` a number, each a column and its title."""
    return _whole(
        mark={"type": "bar", "tooltip": True},
        encoding={
            "x": {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}},
            "y": number(*y),
            "row": kinds(facet),
            "tooltip": tips(x[0], y[0], *shown),
        },
    )


def boxes(x: tuple[str, str], title: str, *shown: str) -> Chart:
    """Return a box a row from the columns min, q1, median, q3 and max."""
    place = {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}}
    whisker = {"x": place, "y": number("min", title), "y2": {"field": "max"}}
    box = {"x": place, "y": number("q1", title), "y2": {"field": "q3"}}
    middle = {"x": place, "y": number("median", title)}
    return _whole(
        layer=[
            {"mark": {"type": "rule"}, "encoding": whisker},
            {
                "mark": {"type": "bar"},
                "encoding": {**box, "tooltip": tips(x[0], "median", "q1", "q3", *shown)},
            },
            {"mark": {"type": "tick", "color": "black"}, "encoding": middle},
        ]
    )


def estimates(
    x: tuple[str, str],
    y: tuple[str, str],
    color: str,
    *shown: str,
    keep: str = "",
    is_in_order: bool = False,
) -> Chart:
    """Return a point a row, and its 95 % interval as a line through it; a `color` beside the other.

    `y` is a column that has `_low` and `_high` beside it; `keep` says which rows there are. `x` is
    sorted, unless its order is the table's own (sort null).
    """
    unsorted: Chart = {"sort": None} if is_in_order else {}
    place = {"field": x[0], "type": "ordinal", "title": x[1], **unsorted}
    where = {"x": place, "xOffset": {"field": color}, "color": kinds(color)}
    ends = {"y": number(f"{y[0]}_low", y[1]), "y2": {"field": f"{y[0]}_high"}}
    seen = tips(x[0], *y[:1], f"{y[0]}_low", f"{y[0]}_high", color, *shown)
    return _whole(
        **({"transform": [{"filter": keep}]} if keep else {}),
        layer=[
            {"mark": {"type": "rule"}, "encoding": {**where, **ends}},
            {
                "mark": {"type": "point", "filled": True},
                "encoding": {**where, "y": number(*y), "tooltip": seen},
            },
        ],
    )


def percentiles(x: tuple[str, str], parts: Mapping[str, str], title: str, *shown: str) -> Chart:
    """Return points above each other at a row's `x`; `parts` are columns and what they show."""
    named = " : ".join(f"datum.part == '{c}' ? '{t}'" for c, t in parts.items())
    place = {"field": x[0], "type": "ordinal", "title": x[1], "axis": {"labelOverlap": True}}
    return _whole(
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
            "tooltip": tips(x[0], "what", "amount", *shown),
        },
    )


def pie(share: tuple[str, str], kind: str, facet: str = "run") -> Chart:
    """Return a pie a run: `share` is the number of a slice, `kind` what it is of."""
    return _whole(
        mark={"type": "arc", "tooltip": True},
        encoding={
            "theta": {"field": share[0], "type": "quantitative", "title": share[1], "stack": True},
            "color": kinds(kind),
            "column": kinds(facet),
            "tooltip": tips(kind, share[0]),
        },
    )


def stacked(
    x: tuple[str, str], parts: Mapping[str, str], title: str, *shown: str, facet: str = "run"
) -> Chart:
    """Return bars of parts on each other, normalised; `parts` are columns and what they show."""
    named = " : ".join(f"datum.part == '{c}' ? '{t}'" for c, t in parts.items())
    return _whole(
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
            "tooltip": tips(x[0], "what", *shown),
        },
    )


def side_by_side(x: tuple[str, str], columns: Mapping[str, str], facet: str = "run") -> Chart:
    """Return one bar plot below the other, a column each, over the same `x`."""
    plots = [bars(x, (column, title), facet=facet) for column, title in columns.items()]
    for plot in plots:
        del plot["$schema"]
    return {"$schema": SCHEMA, "vconcat": plots}


def roofline(label: str, *shown: str, color: str = "memory_bound") -> Chart:
    """Return intensity against throughput, both logarithmic, below the roof of each row's device.

    Columns: intensity, throughput, roof. What has no intensity above 0 has no place.
    """
    x = number("intensity", "FLOP per byte of DRAM", scale={"type": "log"})
    y = number("throughput", "FLOP/s", scale={"type": "log"})
    roof = number("roof", "FLOP/s", scale={"type": "log"})
    return _whole(
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
                    "tooltip": tips(label, "intensity", "throughput", "roof", *shown),
                },
            },
        ],
    )


def lines(x: tuple[str, str], y: tuple[str, str], color: str, *shown: str) -> Chart:
    """Return points joined by lines, a colour each; `x` logarithmic to base 2 (batch sizes)."""
    return _whole(
        mark={"type": "line", "point": True, "tooltip": True},
        encoding={
            "x": number(*x, scale={"type": "log", "base": 2}),
            "y": number(*y),
            "color": kinds(color),
            "tooltip": tips(x[0], y[0], color, *shown),
        },
    )


def points(
    x: tuple[str, str],
    y: tuple[str, str],
    color: str,
    shown: Sequence[str] = (),
    size: tuple[str, str] = ("", ""),
) -> Chart:
    """Return a point a row; its area stands for the column `size`, a small one where it is null."""
    field, title = size
    told = {"field": field, "type": "quantitative", "title": title, "test": f"datum.{field} > 0"}
    area = {"size": {"condition": told, "value": _SMALL_AREA}} if field else {}
    # Rows with a null in any scaled column are left out of a chart, unless it says otherwise.
    nulls = {"invalid": None} if field else {}
    return _whole(
        mark={"type": "point", "filled": True, "tooltip": True, **nulls},
        encoding={
            "x": number(*x),
            "y": number(*y),
            "color": kinds(color),
            **area,
            "tooltip": tips(x[0], y[0], color, *shown),
        },
    )


def heat(x: tuple[str, str], y: tuple[str, str], color: tuple[str, str]) -> Chart:
    """Return a square a row, coloured by a number; `x` and `y` are names or sizes."""
    return _whole(
        mark={"type": "rect", "tooltip": True},
        encoding={
            "x": {"field": x[0], "type": "ordinal", "title": x[1]},
            "y": {"field": y[0], "type": "ordinal", "title": y[1]},
            "color": {"field": color[0], "type": "quantitative", "title": color[1]},
            "tooltip": tips(x[0], y[0], color[0]),
        },
    )


def fields_of(chart: Any) -> set[str]:
    """Return every column that a specification reads: its fields but those that it makes."""
    read, written = _walked(chart)
    return read - written


def _walked(part: Any) -> tuple[set[str], set[str]]:
    """Return the fields that a part reads, and those that its transforms make."""
    if isinstance(part, str):
        return set(re.findall(r"datum\.(\w+)", part)), set()
    if not isinstance(part, Mapping | Sequence):
        return set(), set()
    read: set[str] = set()
    written: set[str] = set()
    children: Sequence[Any] = list(part.values()) if isinstance(part, Mapping) else part
    if isinstance(part, Mapping):
        made = part.get("as", ())
        written |= {made} if isinstance(made, str) else set(made)
        read |= {part["field"]} if isinstance(part.get("field"), str) else set()
        read |= set(part.get("fold", ()))
    for child in children:
        deeper = _walked(child)
        read |= deeper[0]
        written |= deeper[1]
    return read, written
