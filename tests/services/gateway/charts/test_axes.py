"""What the axes of a chart show."""

import pytest

from schemas.analysis import Table
from services.analyzer.building.table import estimate_columns, text_column
from services.gateway.charts.fitting import fitted
from services.gateway.charts.theme import PAGE
from tests.services.gateway.charts.test_fitting import spec_of


@pytest.mark.parametrize(
    ("later", "format_"),
    [
        ("2026-11-23T23:02:44Z", "%H:%M:%S"),
        ("2026-11-24T09:00:00Z", "%d %b %H:%M"),
        ("2027-01-24T09:00:00Z", "%d %b"),
        ("2029-01-24T09:00:00Z", "%b %Y"),
    ],
)
def test_times_are_labelled_as_finely_as_they_lie_apart(later: str, format_: str) -> None:
    columns = (text_column("at", "When."), *estimate_columns("time", "Time."))
    when = {"field": "at", "type": "temporal", "axis": {"tickCount": 5}}
    chart = {"mark": "line", "encoding": {"x": when, "y": {"field": "time"}}}
    rows = (("2026-11-23T23:01:52Z", 1.0, 0.9, 1.1), (later, 2.0, 1.9, 2.1))
    table = Table(name="t", title="T", columns=columns, rows=rows, chart=chart)
    axis = spec_of(fitted(table, PAGE))["encoding"]["x"]["axis"]
    assert axis == {"tickCount": 5, "format": format_}


def test_marks_of_one_time_stand_side_by_side_and_keep_their_time() -> None:
    columns = (text_column("at", "When."), text_column("load", "L."))
    at = {"field": "at", "type": "temporal", "axis": {}}
    chart = {"encoding": {"x": at, "color": {"field": "load"}}}
    first, last = "2026-11-23T00:00:00Z", "2026-11-23T02:00:00Z"
    rows = ((first, "a"), (first, "b"), (last, "a"))
    table = Table(name="t", title="T", columns=columns, rows=rows, chart=chart)
    spec = spec_of(fitted(table, PAGE))
    field = spec["encoding"]["x"]["field"]
    placed = [(row["at"], row[field][11:16]) for row in spec["data"]["values"]]
    assert placed == [(first, "00:00"), (first, "00:01"), (last, "02:00")]


@pytest.mark.parametrize(("other", "is_widened"), [(0.7483, True), (0.8, False)])
def test_an_axis_of_one_value_has_room_around_it(other: float, *, is_widened: bool) -> None:
    columns = (text_column("name", "N."), *estimate_columns("accuracy", "A."))
    up = {"field": "accuracy", "type": "quantitative", "scale": {"zero": False}}
    chart = {"mark": "point", "encoding": {"y": up, "x": {"field": "name"}}}
    rows = (("a", 0.7483, None, None), ("b", other, None, None))
    table = Table(name="t", title="T", columns=columns, rows=rows, chart=chart)
    scale = spec_of(fitted(table, PAGE))["encoding"]["y"]["scale"]
    assert ("domain" in scale) is is_widened
    if is_widened:
        assert scale["domain"] == pytest.approx([0.710885, 0.785715])
