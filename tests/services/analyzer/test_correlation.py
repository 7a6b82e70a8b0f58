"""Trees of spans: what was captured stays, what was not is found by containment, or not at all."""

from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from services.analyzer.correlation import span_tree
from services.analyzer.frames import SPAN_SCHEMA


def _spans(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Return spans of (span, parent, level, start_ns, duration_ns, query)."""
    filled = [(1, s, p, level, "n", at, ns, 0, q, 0, None) for s, p, level, at, ns, q in rows]
    return pl.DataFrame(filled, schema=dict(SPAN_SCHEMA), orient="row")


def _tree(*rows: tuple[Any, ...]) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in span_tree(_spans(*rows)).iter_rows()}


def test_captured_parents_stay() -> None:
    tree = _tree((0, None, 1, 0, 10, 0), (1, 0, 2, 0, 5, 0))
    assert tree == {0: (None, None, "none"), 1: (0, None, "captured")}


def test_containment_finds_the_newest_around_in_the_same_query() -> None:
    tree = _tree(
        (0, None, 2, 0, 10, 0),
        (1, None, 2, 20, 10, 0),
        (2, None, 2, 20, 10, 1),
        (3, None, 3, 21, 5, 0),
    )
    assert tree[3] == (1, 3, "containment")


def test_what_sticks_out_has_no_parent() -> None:
    assert _tree((0, None, 1, 0, 10, 0), (1, None, 2, 8, 5, 0))[1] == (None, None, "none")


def test_deep_spans_know_their_layer() -> None:
    tree = _tree(
        (0, None, 2, 0, 100, 0),
        (1, 0, 3, 0, 50, 0),
        (2, None, 4, 10, 20, 0),
        (3, None, 5, 12, 5, 0),
    )
    assert tree[2] == (1, 1, "containment")
    assert tree[3] == (2, 1, "containment")


def test_no_spans_make_no_tree() -> None:
    assert span_tree(_spans()).is_empty()


_ROWS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 50), st.integers(0, 50), st.integers(-1, 2)),
    max_size=30,
)


@settings(deadline=None, max_examples=60)
@given(rows=_ROWS)
def test_every_span_is_in_the_tree_once_and_parents_contain(rows: list[Any]) -> None:
    spans = _spans(*((n, None, level, at, ns, q) for n, (level, at, ns, q) in enumerate(rows)))
    tree = span_tree(spans)
    assert sorted(tree["span"]) == list(range(len(rows)))
    for span, parent, _, method in tree.iter_rows():
        assert (parent is not None) == (method == "containment")
        if parent is not None:
            inner, outer = rows[span], rows[parent]
            assert outer[0] < inner[0]
            assert outer[1] <= inner[1]
            assert inner[1] + inner[2] <= outer[1] + outer[2]
