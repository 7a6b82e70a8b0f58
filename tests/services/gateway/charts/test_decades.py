"""Logarithmic axes: where they end, and which lines they have."""

import pytest

from schemas.analysis import Table
from services.analyzer.building.charts import Axis, boxes, roofline
from services.analyzer.building.table import float_column, text_column
from services.gateway.charts.decades import decades, round_numbers
from services.gateway.charts.fitting import HALF, NARROW, WIDE, fitted
from services.gateway.charts.theme import PAGE
from tests.services.gateway.charts.test_fitting import spec_of

_PARTS = ("min", "q1", "median", "q3", "max")


def box_table(*rows: tuple[str, float, float]) -> Table:
    """Return boxes of these runs, from the first to the second number."""
    columns = (text_column("run", "R."), text_column("index", "I."), text_column("type", "T."))
    values = [
        (run, str(n), "Conv", low, low, low, high, high) for n, (run, low, high) in enumerate(rows)
    ]
    chart = boxes(("index", "Layer"), Axis("", "Time", "ns"), "type")
    numbers = tuple(float_column(name, "N.") for name in _PARTS)
    return Table(name="t", title="T", columns=(*columns, *numbers), rows=tuple(values), chart=chart)


@pytest.mark.parametrize(
    ("least", "most", "domain", "marks"),
    [
        (3.1e3, 1.65e5, [2e3, 2e5], [2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5]),
        (3.0, 4.0, [2.0, 5.0], [2.0, 5.0]),
        (3.0, 7e6, [2.0, 1e7], [10.0**power for power in range(1, 8)]),
        (5.0, 5.0, [5.0, 10.0], [5.0, 10.0]),
    ],
)
def test_an_axis_ends_at_the_next_round_number_and_has_few_lines(
    least: float, most: float, domain: list[float], marks: list[float]
) -> None:
    spec = spec_of(fitted(box_table(("a", least, most)), PAGE, WIDE))
    for layer in spec["layer"]:
        up = layer["encoding"]["y"]
        assert up["scale"] == {"type": "log", "nice": False, "domain": domain}
        assert (up["axis"]["values"], up["axis"]["tickCount"]) == (marks, len(marks))


def test_axes_of_several_plots_end_where_their_own_values_do() -> None:
    spec = spec_of(fitted(box_table(("a", 3, 40), ("b", 3e6, 4e6)), PAGE, HALF))
    up = spec["spec"]["layer"][0]["encoding"]["y"]
    assert up["scale"] == {"type": "log", "nice": False, "padding": 6}
    assert len(up["axis"]["values"]) < 15


def test_a_narrow_axis_has_fewer_lines() -> None:
    table = box_table(("a", 2.0, 100.0))
    for size, marks in ((WIDE, [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]), (NARROW, [10.0, 100.0])):
        up = spec_of(fitted(table, PAGE, size))["layer"][0]["encoding"]["y"]
        assert up["axis"]["values"] == marks


def test_roofs_end_where_they_did() -> None:
    columns = [float_column(name, "N.") for name in ("intensity", "throughput", "roof", "ridge")]
    columns += [text_column("name", "N."), text_column("memory_bound", "M.")]
    rows = ((0.1, 1e9, 1e10, 12.0, "a", "yes"), (300.0, 1e13, 5e13, 12.0, "b", "no"))
    table = Table(name="t", title="T", columns=tuple(columns), rows=rows, chart=roofline("name"))
    along = spec_of(fitted(table, PAGE))["layer"][-1]["encoding"]["x"]
    assert along["scale"] == {"type": "log", "nice": False}
    assert along["axis"]["values"][:2] == [1e-4, 1e-3]


def test_round_numbers_and_decades() -> None:
    assert round_numbers(0.021, 0.9) == [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert decades(1e-3, 1e9, 2.4) == [1e-3, 1.0, 1e3, 1e6, 1e9]
