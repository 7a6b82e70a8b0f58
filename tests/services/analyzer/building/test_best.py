"""Sentences name a best row only if it is clear of the others, an overhead only if one is seen."""

from typing import Any

import pytest

from services.analyzer.building.best import capitalised, estimate_text, leader, overhead_text

MS = 1e6


def _row(name: str, value: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"name": name, "time": value, "time_low": low, "time_high": high}


def _name_of(row: dict[str, Any]) -> str:
    return str(row["name"])


def test_a_row_apart_from_all_others_is_the_leader() -> None:
    rows = [_row("a", 1, 0.9, 1.1), _row("unknown", None, None, None), _row("b", 3, 2.9, 3.1)]
    assert leader(rows, "time").row["name"] == "b"
    assert leader(rows, "time").doubt("which is slowest", _name_of) == ""
    assert leader(rows, "time", is_largest=False).row["name"] == "a"


def test_rows_that_overlap_are_named_the_best_first() -> None:
    rows = [_row("a", 1, 0.9, 1.1), _row("b", 2, 1.0, 3.0), _row("c", 1.5, 1.0, 2.0)]
    told = "the intervals do not tell which is slowest: b, c or a"
    assert leader(rows, "time").doubt("which is slowest", _name_of) == told


def test_many_candidates_are_counted() -> None:
    rows = [_row(name, 1, 0, 2) for name in "abcdef"]
    told = "the intervals do not tell which is slowest: a, b, c or 3 more"
    assert leader(rows, "time").doubt("which is slowest", _name_of) == told


def test_candidates_of_one_name_are_named_apart() -> None:
    places = [("one", "x"), ("two", "x"), ("two", "y")]
    rows = [_row("gemm", 1, 0, 2) | {"run": run, "level": level} for run, level in places]
    details = ("run", "level")
    told = "gemm (run one), gemm (run two, level x) or gemm (run two, level y)"
    assert leader(rows, "time").doubt("which", _name_of, details).endswith(f": {told}")
    told = "gemm (1 of 3), gemm (2 of 3) or gemm (3 of 3)"
    assert leader(rows, "time").doubt("which", _name_of).endswith(f": {told}")


def test_only_the_first_letter_is_capitalised() -> None:
    assert (capitalised("the GPU of A"), capitalised("")) == ("The GPU of A", "")


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (-0.05 * MS, -0.3 * MS, 0.2 * MS, "none seen (-300 … +200 µs)"),
        (-0.5 * MS, -3 * MS, 2 * MS, "none seen (-3 … +2 ms)"),
        (0.5 * MS, -0.1 * MS, 1.1 * MS, "none seen (-0.1 … +1.1 ms)"),
        (0.0, 0.0, 0.0, "none seen (+0 … +0 ns)"),
        (0.4 * MS, 0.3 * MS, 0.5 * MS, "400 µs (300 … 500)"),
        (-0.4 * MS, -0.5 * MS, -0.3 * MS, "-400 µs (-500 … -300)"),
        (0.4 * MS, None, None, "400 µs (no interval)"),
    ],
)
def test_an_overhead_that_may_be_none_is_not_seen(
    value: float, low: float | None, high: float | None, text: str
) -> None:
    assert overhead_text(value, low, high) == text


def test_an_estimate_of_a_row_is_shown_with_its_interval() -> None:
    assert estimate_text(_row("a", 12.3 * MS, 12.1 * MS, 12.6 * MS), "time") == (
        "12.3 ms (12.1 … 12.6)"
    )
