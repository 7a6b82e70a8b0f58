"""A trace as a frame: a column for each field of a span, typed, also without spans."""

from dataclasses import replace

import polars as pl

from schemas.analysis import SpanRow
from tests.mlscope.exchange.traces import SMALL


def test_a_trace_is_a_frame() -> None:
    frame = SMALL.polars()
    assert frame.columns == list(SpanRow._fields)
    assert frame.rows() == [tuple(span) for span in SMALL.spans]


def test_a_trace_without_spans_has_the_same_columns() -> None:
    assert replace(SMALL, spans=[]).polars().schema == SMALL.polars().schema
    assert SMALL.polars().schema["start_ns"] == pl.Int64
