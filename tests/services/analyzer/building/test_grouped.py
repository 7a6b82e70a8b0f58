"""Grouped statistics: what the papers' statistic says of each group, whatever lies beside it."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import trimmed_mean
from services.analyzer.building.grouped import five_numbers, trimmed, with_absent

_GROUPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 10**12)), min_size=1, max_size=60
)


def _frame(rows: list[tuple[str, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"of": pl.String, "ns": pl.Int64}, orient="row")


@given(rows=_GROUPS)
def test_each_group_has_the_papers_trimmed_mean_inside_its_interval(
    rows: list[tuple[str, int]],
) -> None:
    found = trimmed(_frame(rows), ["of"], "ns")
    assert found["of"].to_list() == list(dict.fromkeys(of for of, _ in rows))
    for of, n, mid, low, high, *box in found.iter_rows():
        values = [ns for each, ns in rows if each == of]
        assert n == len(values)
        assert mid == pytest.approx(trimmed_mean(values))
        assert (low is None) == (high is None) == (n < 2)
        assert low is None or 0 <= low <= mid * (1 + 1e-12) <= high * (1 + 1e-9)
        assert box == pytest.approx(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))


def test_four_values_lose_none_three_give_their_median() -> None:
    four = [("a", ns) for ns in (1, 2, 3, 10)]
    assert trimmed(_frame(four), ["of"], "ns")["mid"].to_list() == [4.0]
    three = [("a", ns) for ns in (1, 2, 30)]
    # t at 97.5% with 2 degrees of freedom is 4.3027, s of 1, 2, 30 is 16.462.
    high = pytest.approx(2.0 + 4.3027 * 16.462 / 3**0.5, rel=1e-4)
    assert trimmed(_frame(three), ["of"], "ns").row(0)[:5] == ("a", 3, 2.0, 0.0, high)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_few_values_of_a_normal_law_have_an_interval_that_holds_in_95_percent(count: int) -> None:
    drawn = np.random.default_rng(7).normal(1e9, 1e7, (20_000, count)).astype(np.int64)
    of = np.repeat(np.arange(len(drawn)), count)
    found = trimmed(pl.DataFrame({"of": of, "ns": drawn.ravel()}), ["of"], "ns")
    holds = ((found["low"] <= 1e9) & (found["high"] >= 1e9)).mean()
    assert isinstance(holds, float)
    assert 0.92 < holds < 0.98


def test_the_interval_is_tukey_and_mclaughlins() -> None:
    # 10 values, 2 dropped at each end: winsorised 3 3 3 4 5 6 7 8 8 8, s = 2.1731; kept 6.
    rows = [("a", ns) for ns in range(1, 11)]
    _, n, mid, low, high = trimmed(_frame(rows), ["of"], "ns").row(0)[:5]
    assert (n, mid) == (10, 5.5)
    reach = 2.570582 * 2.1730675 * 10**0.5 / 6
    assert (low, high) == pytest.approx((5.5 - reach, 5.5 + reach), rel=1e-5)


def test_no_column_to_group_by_makes_one_group_and_no_rows_none() -> None:
    rows = [("a", 1), ("b", 3)]
    assert trimmed(_frame(rows), [], "ns").select("n", "mid").rows() == [(2, 2.0)]
    assert trimmed(_frame([]), [], "ns").height == 0
    assert trimmed(_frame([]), ["of"], "ns").height == 0


def test_nulls_are_a_group_of_their_own_and_no_value() -> None:
    frame = pl.DataFrame({"of": [None, "a", None], "ns": [1, 2, 5]})
    assert trimmed(frame, ["of"], "ns").select("of", "n", "mid").rows() == [
        (None, 2, 3.0),
        ("a", 1, 2.0),
    ]
    empty = pl.DataFrame({"of": ["a"], "ns": [None]}, schema={"of": pl.String, "ns": pl.Int64})
    assert trimmed(empty, ["of"], "ns").row(0)[:5] == ("a", 0, None, None, None)


def test_absent_groups_have_zeros_and_what_is_unknown_stays_unknown() -> None:
    schema = {"layer": pl.Int32, "query": pl.Int32, "ns": pl.Int64, "flops": pl.Float64}
    rows = [(0, 0, 5, None), (0, 1, 7, None), (None, 1, 3, 2.0)]
    amounts = pl.DataFrame(rows, schema=schema, orient="row")
    full = with_absent(amounts, ["layer"], pl.Series([0, 1, 2]).cast(pl.Int32))
    assert sorted(full.iter_rows(), key=str) == sorted(
        [*rows, (0, 2, 0, None), (None, 0, 0, 0.0), (None, 2, 0, 0.0)], key=str
    )


def test_quartiles_of_each_row_lie_linearly_between_values() -> None:
    rising = np.array([[1.0, 2.0, 3.0, 10.0], [0.0, 0.0, 5.0, 6.0]])
    quantiles = np.quantile(rising, [0, 0.25, 0.5, 0.75, 1], axis=1)
    assert np.array(five_numbers(rising)) == pytest.approx(quantiles)
