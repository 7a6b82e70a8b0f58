"""Busy time: overlaps count once, whatever their order."""

from collections.abc import Sequence

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from services.analyzer.building.busy import busy_ns
from tests.thoroughness import examples

_ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 2)),
        st.integers(0, 1),
        st.integers(0, 30),
        st.integers(0, 10),
    ),
    max_size=25,
)


def _frame(rows: Sequence[tuple[int | None, int, int, int]]) -> pl.DataFrame:
    schema = {"layer": pl.Int32, "query": pl.Int32, "start_ns": pl.Int64, "duration_ns": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@settings(deadline=None, max_examples=examples(100))
@given(rows=_ROWS)
def test_busy_time_is_the_count_of_busy_instants(
    rows: list[tuple[int | None, int, int, int]],
) -> None:
    busy: dict[tuple[int | None, int], set[int]] = {}
    for layer, query, start, duration in rows:
        busy.setdefault((layer, query), set()).update(range(start, start + duration))
    found = busy_ns(_frame(rows), ["layer", "query"])
    assert {row[:2]: row[2] for row in found.iter_rows()} == {
        key: len(instants) for key, instants in busy.items()
    }
    together = {instant for instants in busy.values() for instant in instants}
    assert busy_ns(_frame(rows), [])["busy_ns"].sum() == len(together)


def test_what_lies_inside_another_adds_nothing() -> None:
    rows = [(0, 0, 0, 100), (0, 0, 10, 20), (0, 0, 50, 60), (0, 0, 200, 1)]
    assert busy_ns(_frame(rows), ["layer"]).rows() == [(0, 111)]


def test_nothing_is_busy_for_no_time() -> None:
    assert busy_ns(_frame([]), ["layer"]).height == 0
