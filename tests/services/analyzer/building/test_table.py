"""How tables are made: rows ranked by time, shares that add up, exactly the columns described."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.building.table import (
    Analysis,
    distinct_name,
    estimate_columns,
    format_share,
    format_time,
    int_column,
    make_table,
    percentile_cells,
    ranked_by_time,
    share,
    text_column,
    trimmed_cells,
)


def _analysis() -> Analysis:
    columns = (text_column("name", "Name."), int_column("count", "Count."))
    return Analysis("t", "T", "Source.", columns, lambda _: make_table(_analysis(), [], "None."))


@given(st.lists(st.floats(0, 1e12), max_size=20))
def test_ranked_rows_fall_and_their_shares_add_up(times: list[float]) -> None:
    rows = ranked_by_time([{"time": time, "n": n} for n, time in enumerate(times)], "part")
    assert [row["time"] for row in rows] == sorted(times, reverse=True)
    assert sorted(row["n"] for row in rows) == list(range(len(times)))
    if sum(times) > 0:
        assert sum(row["part"] for row in rows) == pytest.approx(1.0)
    else:
        assert {row["part"] for row in rows} <= {None}


def test_equal_times_stay_in_their_order() -> None:
    assert [row["n"] for row in ranked_by_time([{"time": 1.0, "n": n} for n in range(5)], "s")] == [
        *range(5)
    ]


def test_a_row_has_exactly_the_columns() -> None:
    table = make_table(_analysis(), [{"count": 1, "name": "a"}], "One.", ["twice", "twice"])
    assert table.rows == (("a", 1),)
    assert table.caveats == ("twice",)
    with pytest.raises(AssertionError, match="t: "):
        make_table(_analysis(), [{"name": "a"}], "One.")


def test_an_estimate_has_three_columns_and_three_cells() -> None:
    names = [column.name for column in estimate_columns("time", "Time.")]
    assert names == [*trimmed_cells("time", [1.0, 2.0])] == ["time", "time_low", "time_high"]


def test_nothing_has_no_estimate() -> None:
    assert set(trimmed_cells("t", []).values()) == {None}
    assert set(percentile_cells("p", [], 0.5).values()) == {None}


def test_the_median_of_an_even_count_is_between() -> None:
    assert percentile_cells("p", [1.0, 2.0], 0.5)["p"] == 1.5
    assert percentile_cells("p", [1.0, 2.0], 0.9)["p"] == 2.0


def test_a_share_of_nothing_is_none() -> None:
    assert share(1.0, 4.0) == 0.25
    assert (share(None, 1.0), share(1.0, None), share(1.0, 0.0)) == (None, None, None)


def test_sentences_have_units() -> None:
    assert (format_time(1_234_567.0), format_time(None)) == ("1.23 ms", "no time")
    assert [format_time(ns) for ns in (999.4e6, 999.6e6, 3.059e9)] == ["999 ms", "1 s", "3.06 s"]
    assert [format_time(ns) for ns in (-4980, 999.6e3, 12, 0.0)] == [
        "-4.98 µs",
        "1 ms",
        "12 ns",
        "0 ns",
    ]
    assert (format_share(0.1234), format_share(None)) == ("12.3%", "an unknown share")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "an unknown share"),
        (0.0, "0.0%"),
        (1e-9, "under 0.1%"),
        (0.00049, "under 0.1%"),
        (0.0005, "0.1%"),
        (0.123, "12.3%"),
        (-0.2, "-20.0%"),
    ],
)
def test_a_small_share_is_not_shown_as_none(value: float | None, text: str) -> None:
    assert format_share(value) == text


def test_layers_of_one_name_are_told_apart_by_their_index() -> None:
    rows = [{"layer": n, "name": name} for n, name in enumerate(("relu", "conv", "relu"))]
    assert [distinct_name(row, rows) for row in rows] == [
        "relu (index 0)",
        "conv",
        "relu (index 2)",
    ]
    assert distinct_name(rows[0], rows[:1] * 2) == "relu"
