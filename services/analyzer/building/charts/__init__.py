"""Charts of tables as Vega-Lite 5 specifications without data: whoever draws adds the rows.

Each function returns a new map. Fields are column names of the chart's table, or are created
by a `transform` of the same specification. Numbers stay in the table's units; axes are labelled in
prefixed ones. A type of layer has its colour from whoever draws, by its name.
"""

from services.analyzer.building.charts.bar_charts import (
    bars,
    grouped_bars,
    histogram,
    layer_bars,
    ranked,
    stacked,
)
from services.analyzer.building.charts.parts import SCHEMA, Axis, Chart, fields_of, with_transforms
from services.analyzer.building.charts.point_charts import (
    boxes,
    curves,
    dumbbells,
    estimates,
    front,
    heat,
    points,
    series,
    spreads,
)
from services.analyzer.building.charts.roofs import roofline

__all__ = [
    "SCHEMA",
    "Axis",
    "Chart",
    "bars",
    "boxes",
    "curves",
    "dumbbells",
    "estimates",
    "fields_of",
    "front",
    "grouped_bars",
    "heat",
    "histogram",
    "layer_bars",
    "points",
    "ranked",
    "roofline",
    "series",
    "spreads",
    "stacked",
    "with_transforms",
]
