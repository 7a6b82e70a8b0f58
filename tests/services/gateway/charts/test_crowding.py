"""Marks of a line over time: many of them stand apart."""

from itertools import pairwise
from typing import Any

import pytest

from services.analyzer.exploring.history import EXPLORATION
from services.gateway.charts.fitting import NARROW, WIDE, fitted
from services.gateway.charts.theme import PRINT
from tests.services.analyzer.exploring.loads import a_load, table_of


def history_of(hours: int) -> list[dict[str, Any]]:
    """Return a load that is measured every hour; each third is of a slower or a faster version."""
    return [
        a_load(
            evaluation=f"e{hour}",
            requested=f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z",
            model_version=f"1.{hour // 3}.0",
            ms=10.0 + 2.0 * (hour // 3 % 2) + hour / 1000,
        )
        for hour in range(hours)
    ]


def drawn(hours: int, size: Any = WIDE) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the chart of a history, and the rows that it draws."""
    spec = fitted(table_of(EXPLORATION, *history_of(hours)), PRINT, size).spec
    assert spec is not None
    return spec, spec["data"]["values"]


def point_areas(spec: dict[str, Any]) -> list[float]:
    """Return the areas of the points on a chart's lines, in square pixels."""
    marks = [layer["mark"] for layer in spec["layer"]]
    return [mark["point"]["size"] for mark in marks if mark["type"] == "line"]


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_labels_of_changes_stand_apart_and_the_largest_stay(size: Any) -> None:
    _, rows = drawn(200, size)
    changed = [place for place, row in enumerate(rows) if row["change"]]
    labelled = [place for place in changed if rows[place]["note"]]
    assert 3 <= len(labelled) < len(changed)
    largest = max(changed, key=lambda place: abs(rows[place]["change"]))
    assert rows[largest]["note"], "the largest change has its label"
    px_per_place = size.width / 199
    ups = [(place * px_per_place, rows[place]["latency"] > 11e6) for place in labelled]
    for is_up in (False, True):
        along = [at for at, up in ups if up is is_up]
        assert all(after - before >= 42 for before, after in pairwise(along))


def test_few_changes_have_all_their_labels_and_large_points() -> None:
    assert [bool(row["note"]) for row in drawn(7)[1]] == [False] * 3 + [True] + [False] * 2 + [True]
    assert point_areas(drawn(7)[0]) == [46.0]
    assert point_areas(drawn(200)[0]) == [pytest.approx(11.5)]
