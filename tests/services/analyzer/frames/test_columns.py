"""Byte strings of the database as frames: values, nulls, names."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.frames.columns import frame_of, with_names
from services.analyzer.frames.row_schemas import QUERY_SCHEMA, SPAN_SCHEMA

_WIDTHS: dict[type[pl.DataType], str] = {pl.Int16: ">i2", pl.Int32: ">i4", pl.Int64: ">i8"}
_SMALL = st.lists(st.integers(-(2**15), 2**15 - 1), max_size=20)


def _packed(values: list[int]) -> dict[str, bytes]:
    return {
        name: np.array(values, dtype=_WIDTHS[kind]).tobytes()
        for name, kind in QUERY_SCHEMA.items()
        if name != "run_key"
    }


@given(values=_SMALL)
def test_values_come_back_and_minus_one_is_null_where_it_may_be(values: list[int]) -> None:
    frame = frame_of(_packed(values), QUERY_SCHEMA, 7)
    assert frame.schema == dict(QUERY_SCHEMA)
    assert frame["ended_ns"].to_list() == values
    assert frame["due_ns"].to_list() == [None if value == -1 else value for value in values]
    assert frame["run_key"].to_list() == [7] * len(values)


def test_no_rows_are_an_empty_frame() -> None:
    none: dict[str, bytes | None] = dict.fromkeys(QUERY_SCHEMA)
    assert frame_of(none, QUERY_SCHEMA, 7).schema == dict(QUERY_SCHEMA)
    spans = frame_of(dict.fromkeys(SPAN_SCHEMA), SPAN_SCHEMA, 7)
    assert with_names(spans, {}).schema == dict(SPAN_SCHEMA)


def test_names_are_looked_up_and_unknown_ones_shown() -> None:
    spans = pl.DataFrame({"name": [1, 2], "span": [5, 6]})
    assert with_names(spans, {1: "predict"})["name"].to_list() == ["predict", "#2"]
