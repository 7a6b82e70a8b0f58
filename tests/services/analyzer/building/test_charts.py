"""Charts: of every numbered analysis one, without data, whose fields are the table's columns."""

import json
import re
from typing import Any

import pytest

from services.analyzer.building.charts import Axis, bars, estimates, fields_of, stacked
from services.analyzer.building.table import Analysis
from services.analyzer.comparisons import cost, throughput
from services.analyzer.comparisons.source import Comparison
from services.analyzer.tables import ANALYSES
from services.gateway.charts.pen import VEGA_LITE
from tests.services.analyzer.golden import (
    CHARTS,
    FOLDER,
    analyses_called,
    chart_text,
    frames_in,
)
from tests.services.analyzer.tables.reading import rows_of

NUMBERED = [each for each in ANALYSES if each.id]
CHARTED = [each for each in ANALYSES if each.chart]


def _parts(value: Any, name: str) -> list[Any]:
    """Return what a key has anywhere in a specification."""
    if isinstance(value, dict):
        here = [value[name]] if name in value else []
        return here + [part for each in value.values() for part in _parts(each, name)]
    return (
        [part for each in value for part in _parts(each, name)] if isinstance(value, list) else []
    )


def test_the_papers_fifteen_are_there_each_once_in_order() -> None:
    assert [each.id for each in NUMBERED] == [f"A{number}" for number in range(1, 16)]
    assert all(each.chart for each in NUMBERED)


@pytest.mark.parametrize("analysis", CHARTED, ids=lambda each: each.name)
def test_a_charts_fields_are_columns(analysis: Analysis) -> None:
    chart = dict(analysis.chart or {})
    assert fields_of(chart) <= {column.name for column in analysis.columns}
    assert "data" not in chart
    assert json.loads(json.dumps(chart)) == chart
    assert chart["$schema"].endswith("/vega-lite/v5.json")


@pytest.mark.parametrize("analysis", CHARTED, ids=lambda each: each.name)
def test_numbers_are_drawn_from_columns_of_numbers(analysis: Analysis) -> None:
    types = {column.name: column.type for column in analysis.columns}
    for encoding in _parts(analysis.chart, "encoding"):
        for channel in encoding.values():
            if isinstance(channel, dict) and channel.get("type") == "quantitative":
                assert types.get(channel["field"], "float") in ("int", "float")


@pytest.mark.parametrize("analysis", CHARTED, ids=lambda each: each.name)
def test_golden_chart(analysis: Analysis) -> None:
    assert chart_text(analysis) == (CHARTS / f"{analysis.name}.json").read_text()


@pytest.mark.parametrize("name", ["copies_by_layer", "kernels_by_layer"])
def test_what_no_layer_did_is_drawn_behind_the_layers(name: str) -> None:
    pen = pytest.importorskip("vl_convert")
    (analysis,) = analyses_called([name])
    value = json.loads((FOLDER / name / "input.json").read_text())
    rows = rows_of(analysis.compute(frames_in(value)))
    picture = pen.vegalite_to_svg(
        {**(analysis.chart or {}), "data": {"values": rows}}, vl_version=VEGA_LITE
    )
    (axis,) = re.findall(r"X-axis titled 'Layer' for a discrete scale with (.*?)\"", picture)
    assert axis in ("3 values: 0, 2, null", "3 values: 0, 1, null")


def test_a_count_is_written_with_all_its_digits() -> None:
    pen = pytest.importorskip("vl_convert")
    chart = bars(("reason", "Reason"), Axis("queries", "Queries"), has_interval=False)
    counts = (1234, 7, 12_345, 1234.56)
    rows = [{"run": "a", "reason": f"for {count}", "queries": count} for count in counts]
    spec = {**chart, "data": {"values": rows}}
    picture = pen.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    figures = [text for text in ("1234", "7", "12.3k", "1230") if f">{text}</text>" in picture]
    assert figures == ["1234", "7", "12.3k", "1230"], "three digits of what is no count"


def test_every_golden_chart_is_of_an_analysis() -> None:
    assert {path.stem for path in CHARTS.iterdir()} == {each.name for each in CHARTED}


@pytest.mark.parametrize("name", ["latency", "throughput", "lateness", "levels", "layer_overheads"])
def test_what_was_measured_has_a_chart(name: str) -> None:
    assert name in [each.name for each in CHARTED]


def test_an_estimate_is_drawn_with_its_interval() -> None:
    chart = estimates(
        ("part", "Part"), Axis("median", "Time", "ns"), "run", row_filter="datum.kind == 'x'"
    )
    assert fields_of(chart) == {"part", "median", "median_low", "median_high", "run", "kind"}
    line, point = chart["layer"]
    assert (line["encoding"]["y"]["field"], line["encoding"]["y2"]) == (
        "median_low", {"field": "median_high"},
    )  # fmt: skip
    assert point["encoding"]["y"]["field"] == "median"


@pytest.mark.parametrize("comparison", [throughput.COMPARISON, cost.COMPARISON])
def test_curves_that_are_compared_have_intervals_in_their_colours(comparison: Comparison) -> None:
    interval, line = (comparison.chart or {})["layer"]
    column = line["encoding"]["y"]["field"]
    assert interval["encoding"]["y"]["field"] == f"{column}_low"
    assert interval["encoding"]["color"] == line["encoding"]["color"]


def test_a_strange_field_is_found_in_channels_folds_and_expressions() -> None:
    chart = bars(("a", "A"), Axis("b", "B"), "c", has_interval=False)
    assert fields_of(chart) == {"a", "b", "c", "run"}
    parts = fields_of(stacked(("a", "A"), {"b": "B", "c": "C"}, Axis("", "title")))
    assert parts == {"a", "b", "c", "run"}
    assert fields_of({"transform": [{"filter": "datum.x > 0"}]}) == {"x"}


def test_a_label_reads_its_axis_and_no_column() -> None:
    assert fields_of({"axis": {"labelExpr": "datum.value"}, "field": "a"}) == {"a"}


@pytest.mark.parametrize("analysis", CHARTED, ids=lambda each: each.name)
def test_columns_with_a_unit_have_axes_in_prefixed_units(analysis: Analysis) -> None:
    units = {column.name: column.unit for column in analysis.columns}
    for encoding in _parts(analysis.chart, "encoding"):
        for name in ("x", "y"):
            channel = encoding.get(name, {})
            if units.get(channel.get("field")) == "ns":
                assert "' ms'" in channel["axis"]["labelExpr"]


@pytest.mark.parametrize("analysis", CHARTED, ids=lambda each: each.name)
def test_estimates_have_their_intervals_drawn(analysis: Analysis) -> None:
    names = {column.name for column in analysis.columns}
    drawn = fields_of(dict(analysis.chart or {}))
    is_without = {"kernels", "kernels_by_name", "kernel_roofline", "layer_roofline"}
    is_without |= {"kernels_by_model", "gpu_and_rest", "cold_start", "layer_latency", "stages"}
    for encoding in _parts(analysis.chart, "encoding"):
        for name in {encoding.get(axis, {}).get("field") for axis in ("x", "y")}:
            if f"{name}_low" in names and analysis.name not in is_without:
                assert {f"{name}_low", f"{name}_high"} <= drawn
