"""Trees of spans: what was captured stays, what was not is found by containment, or not at all."""

from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.batch import SpanKind
from services.analyzer.correlation import correlate, correlated
from services.analyzer.frames.row_schemas import SPAN_SCHEMA
from tests.services.analyzer.correlation.reference import Span, tree_of
from tests.thoroughness import examples

_HOST, _LAUNCH, _KERNEL = SpanKind.HOST, SpanKind.LAUNCH, SpanKind.KERNEL


def frame_of(spans: list[Span]) -> pl.DataFrame:
    """Return spans as the analyzer reads them."""
    rows = [
        {
            "run_key": 1,
            "span": each.span,
            "parent": None if each.parent < 0 else each.parent,
            "level": each.level,
            "name": "n",
            "start_ns": each.start,
            "duration_ns": each.end - each.start,
            "thread": each.thread,
            "query": each.query,
            "block": 0,
            "kind": int(each.kind),
            "correlation": None if each.correlation < 0 else each.correlation,
        }
        for each in spans
    ]
    return pl.DataFrame(rows, schema=dict(SPAN_SCHEMA), orient="row")


def _tree(*spans: Span) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in correlate(frame_of(list(spans))).iter_rows()}


def test_captured_parents_stay() -> None:
    tree = _tree(Span(0, 1, 0, 10), Span(1, 2, 0, 5, parent=0), Span(2, 2, 0, 5, parent=77))
    assert tree[0] == (None, None, "none")
    assert tree[1] == (0, None, "captured")
    assert tree[2] == (77, None, "captured")


def test_containment_finds_the_newest_around_in_the_same_query() -> None:
    tree = _tree(
        Span(0, 2, 0, 10, query=0),
        Span(1, 2, 20, 30, query=0),
        Span(2, 2, 20, 30, query=1),
        Span(3, 3, 21, 26, query=0),
    )
    assert tree[3] == (1, 3, "containment")


def test_what_sticks_out_further_than_clocks_err_has_no_parent() -> None:
    late, outside = Span(1, 2, 4_000, 11_900), Span(2, 2, 4_000, 12_100)
    tree = _tree(Span(0, 1, 0, 10_000), late, outside)
    assert tree[1] == (0, None, "containment")
    assert tree[2] == (None, None, "none")


def test_a_layer_cut_short_by_its_clock_still_holds_its_call() -> None:
    tree = _tree(Span(0, 2, 0, 90_000), Span(1, 3, 1_000, 9_000), Span(2, 5, 8_000, 9_600))
    assert tree[2] == (1, 1, "containment")


def test_what_no_layer_contains_lies_in_the_operator() -> None:
    tree = _tree(Span(0, 2, 0, 90_000), Span(1, 3, 50_000, 60_000), Span(2, 5, 10_000, 20_000))
    assert tree[2] == (0, None, "containment")


def test_its_own_thread_comes_before_its_query() -> None:
    mine = Span(0, 2, 0, 100, thread=1, query=4)
    other = Span(1, 3, 0, 100, thread=2, query=4)
    tree = _tree(mine, other, Span(2, 5, 10, 20, 1, 4), Span(3, 5, 10, 20, 3, 4))
    assert tree[2] == (0, None, "containment")
    assert tree[3] == (1, 1, "containment")


def test_across_threads_only_one_query_under_way_is_believed() -> None:
    one, two = Span(0, 1, 0, 100, thread=1, query=0), Span(1, 1, 60, 160, thread=2, query=1)
    alone, both = Span(2, 5, 10, 20, thread=9), Span(3, 5, 70, 80, thread=9)
    tree = _tree(one, two, alone, both)
    assert tree[2] == (0, None, "containment")
    assert tree[3] == (None, None, "none")


def test_a_users_span_lies_in_the_query_of_the_operator_around_it() -> None:
    one, two = Span(0, 1, 0, 100, thread=1, query=0), Span(1, 1, 50, 160, thread=1, query=1)
    predict = Span(2, 2, 60, 90, thread=2, query=0, parent=0)
    inside, beside, outside = (
        Span(3, 1, 61, 80, thread=2),
        Span(4, 1, 110, 120, thread=1),
        Span(5, 1, 61, 95, thread=2),
    )
    said = Span(6, 1, 70, 70, thread=2, kind=SpanKind.MARKER)
    tree = _tree(one, two, predict, inside, beside, outside, said)
    assert tree[3] == tree[6] == (0, None, "containment")
    assert tree[4] == (1, None, "containment")
    frame = frame_of([one, two, predict, inside, beside, outside, said])
    assert correlated(frame, 0).query.tolist() == [0, 1, 0, 0, 1, -1, 0]


def test_a_users_span_of_no_known_thread_lies_in_the_query_under_way_alone() -> None:
    one, two = Span(0, 1, 0, 100, thread=1, query=0), Span(1, 1, 60, 160, thread=2, query=1)
    tree = _tree(one, two, Span(2, 1, 10, 20, thread=9), Span(3, 1, 70, 80, thread=9))
    assert tree[2] == (0, None, "containment")
    assert tree[3] == (None, None, "none")
    assert _tree(one, Span(4, 1, 5, 9, query=0))[4] == (None, None, "none")


def test_overlapping_spans_are_searched_past() -> None:
    first, second = Span(0, 3, 0, 10_000), Span(1, 3, 5_000, 40_000)
    tree = _tree(first, second, Span(2, 5, 20_000, 30_000))
    assert tree[2] == (1, 1, "containment")
    short = Span(3, 3, 6_000, 7_000)
    assert _tree(first, second, short, Span(2, 5, 20_000, 30_000))[2] == (1, 1, "containment")


def test_siblings_are_passed_on_the_way_to_what_holds_them() -> None:
    blocks = [Span(n, 3, 10 * n, 10 * n + 5) for n in range(1, 9)]
    tree = _tree(Span(0, 3, 0, 1000), *blocks, Span(9, 5, 96, 99))
    assert tree[9] == (0, 0, "containment")


def test_no_length_at_a_border_belongs_to_what_begins() -> None:
    marker = Span(2, 5, 10, 10, kind=SpanKind.MARKER)
    assert _tree(Span(0, 3, 0, 10), Span(1, 3, 10, 20), marker)[2] == (1, 1, "containment")


def test_kernels_have_the_parents_of_their_launches() -> None:
    tree = _tree(
        Span(0, 2, 0, 100),
        Span(1, 3, 0, 10),
        Span(2, 5, 2, 4, kind=_LAUNCH, correlation=7),
        Span(3, 5, 50, 80, thread=7, kind=_KERNEL, correlation=7),
        Span(4, 5, 81, 90, thread=7, kind=_KERNEL, correlation=8),
    )
    assert tree[3] == (1, 1, "launch")
    assert tree[4] == (None, None, "none")


def test_kernels_of_a_launch_in_nothing_belong_to_it() -> None:
    launch = Span(0, 5, 2, 4, kind=_LAUNCH, correlation=7)
    assert _tree(launch, Span(1, 5, 5, 9, kind=_KERNEL, correlation=7))[1] == (0, None, "launch")


def test_kernels_that_share_a_launch_were_replayed_by_a_graph() -> None:
    launch = Span(1, 5, 2, 4, kind=_LAUNCH, correlation=7)
    kernels = [Span(n, 5, n, n + 1, kind=_KERNEL, correlation=7) for n in (5, 6)]
    tree = _tree(Span(0, 2, 0, 9), launch, *kernels)
    assert tree[5] == tree[6] == (0, None, "graph")


def test_a_correlation_id_that_came_again_is_the_last_launch_before() -> None:
    launches = [Span(n, 5, 10 * n, 10 * n + 1, kind=_LAUNCH, correlation=7) for n in (1, 2)]
    kernel = Span(3, 5, 15, 16, kind=_KERNEL, correlation=7)
    assert _tree(*launches, kernel)[3][0] == 1
    assert _tree(*launches, replace(kernel, start=25, end=26))[3][0] == 2


def test_deep_spans_know_their_layer_and_query() -> None:
    spans = [
        Span(0, 2, 0, 100, query=5),
        Span(1, 3, 0, 50, query=5, parent=0),
        Span(2, 4, 10, 30),
        Span(3, 5, 12, 17),
    ]
    found = correlated(frame_of(spans))
    assert found.frame.rows()[2:] == [(2, 1, 1, "containment"), (3, 2, 1, "containment")]
    assert found.query.tolist() == [5, 5, 5, 5]


def test_what_was_cut_at_an_edge_is_left_out_and_counted() -> None:
    found = correlated(frame_of([Span(0, 1, -5, 3), Span(1, 1, 4, 3), Span(2, 1, 0, 3)]))
    assert found.frame["span"].to_list() == [2]
    assert found.cut == 2


def test_parents_in_a_circle_end() -> None:
    tree = _tree(Span(0, 4, 0, 9, parent=1), Span(1, 4, 0, 9, parent=0))
    assert tree == {0: (1, None, "captured"), 1: (0, None, "captured")}


def test_no_spans_make_no_tree() -> None:
    assert correlate(frame_of([])).is_empty()


@pytest.mark.parametrize("scale", [1, 1 << 52])
def test_times_of_any_size_are_compared_exactly(scale: int) -> None:
    spans = [
        Span(n, 2 + n % 2, n * scale, (n + 1) * scale + 1, thread=n % 5, query=n) for n in range(40)
    ]
    assert _tree(*spans) == tree_of(spans, 2_000)


def _nest(random: Random, count: int) -> list[Span]:
    """Return spans that nest, overlap, touch and stick out; ids are numbers from 0."""
    spans: list[Span] = []
    for number in range(count):
        level, thread = random.randint(1, 6), random.randint(0, 1)
        start, length = random.randint(0, 40), random.choice([0, 1, 3, 9, 40]) // level
        if spans and random.random() < 0.7:
            around = random.choice(spans)
            thread, level = around.thread, min(around.level + random.randint(0, 2), 6)
            start = random.randint(around.start, around.end)
            length = random.randint(0, around.end - start + random.choice([0, 0, 1, 5]))
        span = Span(number, level, start, start + length, thread, random.choice([-1, -1, 0, 1]))
        kind = random.choice([_HOST] * 9 + list(SpanKind))
        correlation = random.choice([-1, 0, 1]) if kind != _HOST else -1
        parent = random.randint(0, count + 1) if random.random() < 0.1 else -1
        spans.append(replace(span, kind=kind, correlation=correlation, parent=parent))
    return spans


@settings(deadline=None, max_examples=examples(150))
@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 30), tolerance_ns=st.integers(0, 4))
def test_the_tree_is_that_of_the_slow_obvious_way(seed: int, count: int, tolerance_ns: int) -> None:
    spans = _nest(Random(seed), count)
    found = correlated(frame_of(spans), tolerance_ns).frame
    assert {row[0]: row[1:] for row in found.iter_rows()} == tree_of(spans, tolerance_ns)
