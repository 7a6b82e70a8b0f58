"""Time by level: each from where it is the deepest; what looking costs is called a difference."""

from typing import Any

from services.analyzer.tables.levels import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, span, table_of


def _run(run: str, level: int, ns: int, *spans: list[Any]) -> dict[str, Any]:
    return {"run": run, "level": level, "queries": [query(0, 0, ns)], "spans": list(spans)}


def _parts(*runs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["part"]: row for row in rows_of(table_of(ANALYSIS, *runs))}


def test_what_no_operator_had_is_outside_operators() -> None:
    parts = _parts(_run("r0", 2, 100, span(0, 2, "decode", 30), span(1, 2, "predict", 50)))
    assert parts["operators"]["median"] == 80.0
    assert (parts["predict"]["median"], parts["predict"]["share"]) == (50.0, 0.5)
    assert parts["outside operators"]["median"] == 20.0


def test_the_cost_of_looking_is_a_difference_of_two_runs() -> None:
    parts = _parts(_run("r0", 0, 100), _run("r1", 2, 130, span(0, 2, "predict", 90)))
    cost = parts["tracing model, on query"]
    assert (cost["kind"], cost["median"], cost["run"]) == ("difference", 30.0, "r1 - r0")
    assert parts["query"]["median"] == 100.0


def test_overlapping_operators_leave_a_negative_rest_that_is_told() -> None:
    table = table_of(
        ANALYSIS, _run("r0", 2, 100, span(0, 2, "decode", 80), span(1, 2, "predict", 70))
    )
    rest = {row["part"]: row["median"] for row in rows_of(table)}["outside operators"]
    assert rest == -50.0
    assert any("outside operators is below 0" in caveat for caveat in table.caveats)
