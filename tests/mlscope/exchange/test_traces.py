"""Traces as frames, also without spans; the lanes of their spans, also of many at the same time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from mlscope.exchange.traces import Lane, Trace, clipped, device_of, lanes
from schemas.analysis import SpanRow
from schemas.batch import SpanKind
from schemas.level import Level
from tests.mlscope.exchange.traces import SMALL, TRACES, row


def test_a_trace_is_a_frame() -> None:
    frame = SMALL.polars()
    assert frame.columns == list(SpanRow._fields)
    assert frame.rows() == [tuple(span) for span in SMALL.spans]


def test_a_trace_without_spans_has_the_same_columns() -> None:
    assert replace(SMALL, spans=[]).polars().schema == SMALL.polars().schema
    assert SMALL.polars().schema["start_ns"] == pl.Int64


def _by_trying(spans: Sequence[SpanRow]) -> Mapping[Lane, list[SpanRow]]:
    """Return the lanes of spans as they are defined: each span tries one lane after the other."""
    drawn: dict[Lane, list[SpanRow]] = defaultdict(list)
    lanes_at: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
    for span in clipped([span for span in spans if span.kind != SpanKind.SAMPLE]):
        place = (device_of(span), span.thread)
        start, end = span.start_ns, span.start_ns + span.duration_ns
        drawn[*place, _placed_by_trying(lanes_at[place], start, end)].append(span)
    return drawn


def _placed_by_trying(lanes_here: list[list[int]], start: int, end: int) -> int:
    """Put a span into the first of some lanes in which it nests, or a new one; return its number.

    Each lane has the ends of its open spans, the innermost last.
    """
    for number, ends in enumerate(lanes_here):
        while ends and ends[-1] <= start and not (ends[-1] == start == end):
            ends.pop()
        if not ends or ends[-1] >= end:
            ends.append(end)
            return number
    lanes_here.append([end])
    return len(lanes_here) - 1


_CROWDED = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 2)), max_size=60
).map(
    lambda rows: [
        row(number, start, duration, Level.SYSTEM, thread=thread)
        for number, (start, duration, thread) in enumerate(rows)
    ]
)
"""Spans on two threads, most of which overlap others."""


@given(TRACES)
def test_each_span_is_in_the_first_lane_in_which_it_nests(trace: Trace) -> None:
    assert list(lanes(trace.spans).items()) == list(_by_trying(trace.spans).items())


@given(_CROWDED)
def test_overlapping_spans_are_in_the_first_lanes_in_which_they_nest(spans: list[SpanRow]) -> None:
    assert list(lanes(spans).items()) == list(_by_trying(spans).items())


def test_a_lane_that_is_free_again_is_used_before_later_ones() -> None:
    times = ((0, 9), (1, 12), (2, 20), (10, 18), (13, 30), (14, 16))
    spans = [
        row(number, start, end - start, Level.SYSTEM) for number, (start, end) in enumerate(times)
    ]
    numbers = {lane: [span.span for span in drawn] for (_, _, lane), drawn in lanes(spans).items()}
    assert numbers == {0: [0, 3, 5], 1: [1, 4], 2: [2]}
