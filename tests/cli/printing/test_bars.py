"""Charts on a terminal: bars as long as their values, and what is left out."""

import json
from pathlib import Path

from cli.printing.bars import MOST_BARS, bar_lines, fields_of
from schemas.analysis import Column, Table

_CHARTS = Path(__file__).parents[2] / "golden" / "charts"
_CHART = {
    "layer": [
        {"mark": "rule", "encoding": {"x": {"field": "index"}, "y": {"field": "min"}}},
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {"field": "name", "type": "nominal"},
                "y": {"field": "time", "type": "quantitative"},
            },
        },
    ]
}


def a_table(count: int, **changes: object) -> Table:
    columns = (Column(name="name", type="text"), Column(name="time", type="float", unit="ns"))
    rows = tuple((f"layer {n}", 1e6 * n) for n in range(count))
    table = Table(name="layers", title="Layers", columns=columns, rows=rows, chart=_CHART)
    return table.model_copy(update=changes)


def test_bars_are_as_long_as_their_values() -> None:
    head, *bars = bar_lines(a_table(5), 60)
    assert head == "Layers: time"
    assert [bar.count("█") for bar in bars[-2:]] == [27, 37]
    assert bars[0].split() == ["layer", "0", "0", "ns"]
    assert all(len(line) <= 60 for line in bars)


def test_a_bar_says_its_layer_s_name_and_its_run_where_there_are_several() -> None:
    chart = {
        "mark": "bar",
        "encoding": {"x": {"field": "index"}, "y": {"field": "ns", "type": "quantitative"}},
    }
    names = {"run": "text", "index": "int", "name": "text", "ns": "float"}
    columns = tuple(Column(name=name, type=kind) for name, kind in names.items())
    rows = (("r0", 0, "conv", 5.0), ("r0", 1, "relu", 3.0))
    table = Table(name="layers", title="Layers (A2)", id="A2", columns=columns, rows=rows)
    table = table.model_copy(update={"chart": chart})
    head, *bars = bar_lines(table, 60)
    assert head == "Layers (A2): ns"
    assert [bar.split()[:2] for bar in bars] == [["0", "conv"], ["1", "relu"]]
    two_runs = table.model_copy(update={"rows": (*rows, ("r1", 0, "conv", 4.0))})
    assert bar_lines(two_runs, 60)[3].split()[:3] == ["r1", "0", "conv"]


def test_more_rows_than_fit_are_said() -> None:
    lines = bar_lines(a_table(MOST_BARS + 5), 60)
    assert lines[-1] == f"the first {MOST_BARS} of {MOST_BARS + 5} rows"
    assert len(lines) == MOST_BARS + 2


def test_a_table_without_a_chart_says_its_verdict() -> None:
    (line,) = bar_lines(a_table(3, chart=None, verdict="Fast."), 60)
    assert line.endswith("its verdict: Fast.")


def test_charts_of_analyses_have_bars() -> None:
    charts = {path.stem: json.loads(path.read_text()) for path in _CHARTS.glob("*.json")}
    named = {name: fields_of(chart) for name, chart in charts.items()}
    assert named["layer_latency"] is not None
    assert sum(fields is not None for fields in named.values()) > 20
