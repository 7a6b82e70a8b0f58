"""Rooflines: throughput over intensity under the roofs of the device (Williams et al. 2009)."""

from services.analyzer.building.charts.parts import (
    Axis,
    Chart,
    label_of,
    names,
    number,
    tips,
    view,
)

_LOG = {"scale": {"type": "log", "nice": False}}
_MARGIN = 3.0
"""By this factor the roofs are drawn beyond the points and the ridge, on both sides."""


def roofline(
    label: str, *tooltip_fields: str, color: str = "memory_bound", size: str = ""
) -> Chart:
    """Return a roofline, both axes logarithmic, with both roofs, their names and the ridge.

    The table has the columns intensity, throughput, roof and ridge (FLOP/By); rows without an
    intensity above 0 are left out. Below the ridge the bandwidth is the roof, above it the peak:
    both are computed from a row's roof. `label` and `tooltip_fields` are columns in the tooltip,
    `color` and `size` (of the area) columns.
    """
    area = (
        {"size": {"field": size, "type": "quantitative", "title": "Time", "legend": None}}
        if size
        else {}
    )
    points = {
        "mark": {"type": "point", "filled": True, "tooltip": True, "opacity": 0.8},
        "encoding": {
            "x": _x("intensity"),
            "y": _y("throughput"),
            "color": names(color),
            **area,
            "tooltip": tips(label, "intensity", "throughput", "roof", *tooltip_fields),
        },
    }
    return view(
        transform=[{"filter": "datum.intensity > 0 && datum.throughput > 0"}],
        layer=[*_roofs(), points],
    )


def _x(field: str) -> Chart:
    return number(Axis(field, "Arithmetic intensity (FLOP per byte of DRAM)"), **_LOG)


def _y(field: str) -> Chart:
    return number(Axis(field, "Throughput", "FLOP/s"), **_LOG)


def _roofs() -> list[Chart]:
    """Return the layers of the roofs: one set for each ridge, which is a device's."""
    peak_text = f"'peak ' + {label_of('datum.peak', 'FLOP/s', '.3~r')}"
    bandwidth_text = f"'memory ' + {label_of('datum.peak / datum.ridge', 'B/s', '.3~r')}"
    transform: list[Chart] = [
        {"filter": "datum.roof > 0 && datum.ridge > 0"},
        {"calculate": "datum.roof * max(1, datum.ridge / datum.intensity)", "as": "row_peak"},
        {
            "aggregate": [
                {"op": "max", "field": "row_peak", "as": "peak"},
                {"op": "min", "field": "intensity", "as": "least"},
                {"op": "max", "field": "intensity", "as": "most"},
            ],
            "groupby": ["ridge"],
        },
        {"calculate": f"min(datum.least, datum.ridge) / {_MARGIN}", "as": "left"},
        {"calculate": f"max(datum.most, datum.ridge) * {_MARGIN}", "as": "right"},
        {"calculate": "datum.peak * datum.left / datum.ridge", "as": "lowest"},
        {"calculate": "sqrt(datum.left * datum.ridge)", "as": "middle"},
        {"calculate": "datum.peak * datum.middle / datum.ridge", "as": "half_way"},
        {"calculate": peak_text, "as": "peak_text"},
        {"calculate": bandwidth_text, "as": "bandwidth_text"},
        {"calculate": "'ridge ' + format(datum.ridge, '.3~r')", "as": "ridge_text"},
    ]
    slope = {
        "x": _x("left"),
        "x2": {"field": "ridge"},
        "y": _y("lowest"),
        "y2": {"field": "peak"},
    }
    flat = {"x": _x("ridge"), "x2": {"field": "right"}, "y": _y("peak")}
    down = {"x": _x("ridge"), "y": _y("lowest"), "y2": {"field": "peak"}}
    roof: Chart = {"type": "rule", "style": "roof"}
    return [
        {"transform": transform, "mark": roof, "encoding": slope},
        {"transform": transform, "mark": roof, "encoding": flat},
        {"transform": transform, "mark": {"type": "rule", "style": "ridge"}, "encoding": down},
        _text(transform, "right", "peak", "peak_text", align="right", dy=-8),
        _text(transform, "middle", "half_way", "bandwidth_text", align="left", dx=18, dy=8),
        _text(transform, "ridge", "lowest", "ridge_text", align="left", dx=5, dy=-4),
    ]


def _text(transform: list[Chart], x: str, y: str, text: str, **mark: object) -> Chart:
    return {
        "transform": transform,
        "mark": {"type": "text", "style": "note", **mark},
        "encoding": {"x": _x(x), "y": _y(y), "text": {"field": text, "type": "nominal"}},
    }
