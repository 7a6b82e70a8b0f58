"""Spans of a lane and depth never overlap, and lie below the spans that hold them."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.depths import MOST_DEPTH, depths_of

_SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=30)


def _depths(spans: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return start, end and depth of spans given by start and duration."""
    ordered = sorted(spans, key=lambda span: (span[0], -span[1]))
    start = np.array([start for start, _ in ordered], np.int64)
    end = start + np.array([duration for _, duration in ordered], np.int64)
    return list(zip(start.tolist(), end.tolist(), depths_of(start, end).tolist(), strict=True))


@given(_SPANS)
def test_spans_of_a_depth_do_not_overlap(spans: list[tuple[int, int]]) -> None:
    for (start, end, depth), (later, its_end, its_depth) in combinations(_depths(spans), 2):
        if max(end, start + 1) > later:
            assert depth != its_depth
            if max(its_end, later + 1) <= max(end, start + 1):
                assert its_depth > depth


@given(_SPANS)
def test_no_depth_is_left_empty(spans: list[tuple[int, int]]) -> None:
    depths = {depth for _, _, depth in _depths(spans)}
    assert depths == set(range(len(depths)))


def test_nested_spans_have_their_nesting_as_depth() -> None:
    assert [depth for *_, depth in _depths([(0, 10), (1, 3), (2, 1), (5, 5), (10, 4)])] == [
        0,
        1,
        2,
        1,
        0,
    ]


def test_a_span_that_outlasts_its_parent_moves_only_its_own_stretch() -> None:
    depths = _depths([(0, 10), (8, 4), (11, 5), (20, 5), (21, 2)])
    assert [depth for *_, depth in depths] == [0, 1, 0, 0, 1]


def test_what_is_too_deep_shares_the_deepest_row() -> None:
    nested = [(number, 1000 - 2 * number) for number in range(300)]
    assert max(depth for *_, depth in _depths(nested)) == MOST_DEPTH
    crossed = [(number, 1000) for number in range(300)]
    assert max(depth for *_, depth in _depths(crossed)) == MOST_DEPTH
