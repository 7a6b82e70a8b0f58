"""A table's chart fitted to its rows: what is drawn, how large, in which colours. Pure.

A specification says what a chart shows; how many runs, types and names there are is in the rows.
"""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.gateway.charts.axes import (
    CHARACTER_PX,
    Row,
    Size,
    Spec,
    date_times,
    encodings_of,
    few_places_px,
    join_offsets,
    label_px,
    side_by_side,
    tick_batches,
    widen_one_value,
)
from services.gateway.charts.choosing import LEGEND, Choosing, choosable
from services.gateway.charts.colouring import coloured
from services.gateway.charts.crowding import shrink_points, without_crowded_labels
from services.gateway.charts.decades import tighten_decades
from services.gateway.charts.theme import Theme, config_of
from services.gateway.charts.thinning import MOST_BARS, thinned
from services.gateway.pages.colours import hash_of

MOST_FACETS = 12
MOST_NAMES = 30
MOST_ROWS = 3000
MOST_LETTERS = 42
_WORD = re.compile(r"\w+")

_LEGEND_PX = 40

_VEGA_TEST = re.compile(
    r"(isValid\(datum\.(\w+)\)|datum\.(\w+) (>|==|!=|===) ('[^']*'|true|[\d.]+))"
)


WIDE, HALF, NARROW = Size(900), Size(580), Size(360)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A specification with its rows, None if there is nothing to draw; `notes` say what is not."""

    spec: Spec | None
    notes: tuple[str, ...] = ()


def fitted(
    table: Table,
    theme: Theme,
    size: Size = WIDE,
    *,
    among: Table | None = None,
    choosing: Choosing | None = None,
) -> Fitted:
    """Return the chart of a `table` with its rows, in the colours of `theme`, as wide as `size`.

    `among` has all rows where `table` has some of them: colours do not change with the selection.
    `choosing` is the layer to outline, and where marks of layers lead.
    """
    if table.chart is None:
        return Fitted(None)
    spec: Spec = copy.deepcopy(dict(table.chart))
    if choosing is not None:
        spec = choosable(spec, choosing, theme)
    every = rows_of(among or table, spec)
    drawn: list[Row] = [row for row in rows_of(table, spec) if _passes(row, spec)]
    if not drawn:
        return Fitted(None, ("Nothing to draw: no row has the values of this chart.",))
    notes: list[str] = []
    plots = spec.get("vconcat", [spec])
    drawn = _first_facets(drawn, plots[0], notes)
    drawn = _largest_names(drawn, plots[0], notes)
    drawn = _largest_bars(drawn, plots[0], notes, choosing)
    if len(drawn) > MOST_ROWS:
        notes.append(f"The chart shows the first {MOST_ROWS} of {many(len(drawn), 'row')}.")
        drawn = drawn[:MOST_ROWS]
    drawn = side_by_side(plots[0], drawn, _facet_of(plots[0]))
    drawn = without_crowded_labels(plots[0], drawn, _facet_of(plots[0]), size)
    plots = [_sized(coloured(plot, every, drawn), drawn, size) for plot in plots]
    spec = {**spec, "vconcat": plots} if "vconcat" in spec else {**plots[0]}
    values = {"data": {"values": [dict(row) for row in drawn]}}
    config = config_of(theme, is_narrow=size.is_narrow)
    if choosing is not None and choosing.layer is not None:
        config["legend"] |= LEGEND
    config["legend"]["columns"] = _legend_columns(plots, config["legend"], size)
    return Fitted({**spec, **values, "config": config}, tuple(notes))


def _legend_columns(plots: Sequence[Spec], legend: Spec, size: Size) -> int:
    """Return how many of the longest names fit side by side: a wider legend shrinks the chart."""
    encodings = [encoding for plot in plots for encoding in encodings_of(plot)]
    colours = [encoding.get("color", {}) for encoding in encodings]
    domains = [colour.get("scale", {}).get("domain", ()) for colour in colours]
    longest = max((len(str(name)) for domain in domains for name in domain), default=0)
    name_px = min(longest * CHARACTER_PX, legend["labelLimit"]) + _LEGEND_PX
    return max(1, min(int(legend["columns"]), int(size.width // name_px)))


def rows_of(table: Table, spec: Spec) -> list[dict[str, Any]]:
    """Return a table's rows with the columns that its chart mentions."""
    mentioned = {*_WORD.findall(json.dumps(spec))}
    used = [(n, column.name) for n, column in enumerate(table.columns) if column.name in mentioned]
    return [{name: _shortened(row[number]) for number, name in used} for row in table.rows]


def _shortened(value: Any) -> Any:
    """Return a cell; of a long text its beginning and end, and a number that keeps it apart.

    Kernels of templates have names of thousands of letters, which take seconds to measure.
    """
    if not isinstance(value, str) or len(value) <= MOST_LETTERS:
        return value
    mark = f"{hash_of(value.encode('ascii', 'replace').decode()):08x}"[:4]
    return f"{value[: MOST_LETTERS - 18]}…{value[-11:]} #{mark}"


def _passes(row: Row, spec: Spec) -> bool:
    """Tell whether the specification's own filters keep a row, as far as they can be read."""
    texts = [transform.get("filter") for transform in spec.get("transform", ())]
    tests = [test for text in texts if isinstance(text, str) for test in text.split(" && ")]
    for parts in filter(None, map(_VEGA_TEST.fullmatch, tests)):
        name, sign, literal = parts[2] or parts[3], parts[4], parts[5]
        if name not in row:
            continue
        if parts[2]:
            holds = row[name] is not None
        elif sign == ">":
            holds = isinstance(row[name], int | float) and row[name] > float(literal)
        else:
            value = True if literal == "true" else literal.strip("'")
            holds = (row[name] == value) is (sign != "!=")
        if not holds:
            return False
    return True


def _facet_of(plot: Spec) -> str:
    return str(plot.get("facet", {}).get("row", {}).get("field", ""))


def _first_facets(rows: Sequence[Row], plot: Spec, notes: list[str]) -> list[Row]:
    """Return the rows of the first few facets, and note how many there are."""
    facet = _facet_of(plot)
    values = list(dict.fromkeys(row.get(facet) for row in rows))
    if not facet or len(values) <= MOST_FACETS:
        return list(rows)
    shown = set(values[:MOST_FACETS])
    notes.append(f"The chart shows the first {MOST_FACETS} of {len(values)} by {facet}.")
    return [row for row in rows if row.get(facet) in shown]


def _largest_names(rows: Sequence[Row], plot: Spec, notes: list[str]) -> list[Row]:
    """Return the rows of the names with the longest bars, to either side, and note how many."""
    for encoding in encodings_of(plot):
        place = encoding.get("y", {})
        field, order = place.get("field"), place.get("sort")
        if not isinstance(order, Mapping) or "field" not in order:
            continue
        totals: dict[Any, float] = {}
        for row in rows:
            name, value = row.get(field), row.get(order["field"])
            amount = abs(value) if isinstance(value, int | float) else 0.0
            totals[name] = max(totals.get(name, 0.0), amount)
        if len(totals) <= MOST_NAMES:
            break
        largest = {*sorted(totals, key=lambda name: -totals[name])[:MOST_NAMES]}
        notes.append(
            f"The chart shows the {MOST_NAMES} largest of {len(totals)}; the table has all."
        )
        return [row for row in rows if row.get(field) in largest]
    return list(rows)


def _largest_bars(
    rows: Sequence[Row], plot: Spec, notes: list[str], choosing: Choosing | None
) -> list[Row]:
    """Return the rows of as many bars as can be distinguished, and note which are left out."""
    facet = _facet_of(plot)
    most_bars = min(MOST_BARS, MOST_ROWS // max(1, len({row.get(facet) for row in rows})))
    chosen = ("", None) if choosing is None else (choosing.column, choosing.layer)
    drawn, stretch = thinned(rows, plot, facet, most_bars, chosen)
    if stretch > 1:
        notes.append(
            f"Of more than {most_bars} bars the chart shows the largest of every {stretch}; "
            "the table and its files have all."
        )
    return drawn


def _sized(plot: Spec, rows: Sequence[Row], size: Size) -> Spec:
    """Return a plot with its size; split into facets only where there are several."""
    facet = _facet_of(plot)
    is_split = bool(facet) and len({row.get(facet) for row in rows}) > 1
    inner = dict(plot.get("spec", plot))
    columns = [encoding.get("y", {}) for encoding in encodings_of(plot)]
    named = next((y for y in columns if y.get("type") in ("nominal", "ordinal")), None)
    labels_px = label_px(rows, named, size) if named else 62
    tick_batches(inner, rows)
    date_times(inner, rows)
    shrink_points(inner, rows, facet, size)
    tighten_decades({**plot, "spec": inner}, rows, facet if is_split else "", size)
    if not is_split:
        widen_one_value(inner, rows)
    if named:
        join_offsets(inner, rows, facet)
        for y in columns:
            y["axis"] = {**named["axis"], "labelLimit": labels_px}
        has_offset = any("yOffset" in encoding for encoding in encodings_of(plot))
        inner["height"] = {"step": 13, "for": "offset"} if has_offset else {"step": 22}
    else:
        inner.setdefault("height", 150 if is_split else 200 if size.is_narrow else 300)
    figure_px = 70 if any("text" in encoding for encoding in encodings_of(plot)) and named else 16
    inner["width"] = size.width - labels_px - figure_px - 24
    if is_split:
        return {**plot, "spec": inner}
    if not named:
        inner["width"] = min(inner["width"], few_places_px(inner, rows))
    of_facets = {"facet", "spec", "resolve"} if facet else {"facet", "spec"}
    outer = {key: value for key, value in plot.items() if key not in of_facets}
    return {**outer, **inner}
