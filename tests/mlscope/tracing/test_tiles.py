"""Tiles count every span, cover no more than their time, and are the tiles of their own tiles."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.tiles import Tiles, fitted, power_of_two, tiled

_PARTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 70)), max_size=60)
_WIDTHS = st.sampled_from([1.0, 4.0, 16.0, 64.0])


@st.composite
def _rows(draw: st.DrawFn) -> Tiles:
    """Return spans that follow one another in up to three rows."""
    row, start, duration = [], [], []
    for number in range(draw(st.integers(1, 3))):
        at = 0
        for pause, length in draw(_PARTS):
            at += pause
            row.append(number)
            start.append(float(at))
            duration.append(float(length))
            at += max(length, 1)
    return Tiles.of_spans(np.array(row, np.int64), np.array(start), np.array(duration))


@given(_rows(), _WIDTHS)
def test_tiles_stand_for_every_span_once(spans: Tiles, width: float) -> None:
    tiles = tiled(spans, width)
    assert tiles.count.sum() == len(spans)
    assert np.isclose(tiles.busy_ns.sum(), spans.duration.sum())
    assert ((tiles.busy >= 0) & (tiles.busy <= 1)).all()
    first = np.cumsum(tiles.count) - tiles.count
    for number in range(len(tiles)):
        rows = slice(first[number], first[number] + tiles.count[number])
        ends = spans.start[rows] + spans.duration[rows]
        assert set(spans.row[rows]) == {tiles.row[number]}
        assert tiles.start[number] == spans.start[rows].min()
        assert tiles.start[number] + tiles.duration[number] == ends.max()
        assert spans.duration[tiles.source[number]] == spans.duration[rows].max()


@given(_rows(), _WIDTHS)
def test_long_spans_stay_as_they_are(spans: Tiles, width: float) -> None:
    tiles = tiled(spans, width)
    assert (tiles.longest[tiles.count > 1] < width).all()
    assert (spans.duration >= width).sum() <= (tiles.count == 1).sum()


@given(_rows())
def test_at_full_zoom_tiles_are_the_spans(spans: Tiles) -> None:
    for tiles in (tiled(spans, 0.0), fitted(spans, 0.0, max(len(spans), 1))[0]):
        assert (tiles.start == spans.start).all()
        assert (tiles.count == 1).all()


@given(_rows(), st.sampled_from([4.0, 16.0]))
def test_tiles_of_tiles_are_the_tiles_of_the_spans(spans: Tiles, width: float) -> None:
    direct, twice = tiled(spans, 4 * width), tiled(tiled(spans, width), 4 * width)
    for name in ("row", "start", "duration", "count", "busy_ns", "longest"):
        assert (getattr(direct, name) == getattr(twice, name)).all(), name


@given(_rows(), st.integers(3, 40))
def test_as_few_rows_remain_as_are_asked_for(spans: Tiles, most: int) -> None:
    tiles, width = fitted(spans, 0.0, most)
    assert len(tiles) <= max(most, 2 * len(set(spans.row)))
    assert (width == 0) == (len(spans) <= most)
    assert tiles.count.sum() == len(spans)


def test_widths_are_powers_of_two() -> None:
    assert [power_of_two(width) for width in (0.0, 1.0, 5.0, 64.0)] == [1.0, 1.0, 4.0, 64.0]


@given(_rows(), st.integers(1, 40), st.sampled_from([1.0, 2.0]))
def test_the_width_is_the_first_multiple_by_four_that_fits(
    spans: Tiles, most: int, width: float
) -> None:
    tiles, taken = fitted(spans, width, most)
    if not len(spans):
        assert (len(tiles), taken) == (0, 0.0)
        return
    steps = np.log2(taken / width) / 2
    assert steps == int(steps) >= 0
    assert (tiles.start == tiled(spans, taken).start).all()
    if taken > width:
        assert len(tiled(spans, taken / 4)) > most
    window_ns = (spans.start + spans.duration).max() - spans.start.min() + 1
    assert len(tiles) <= most or taken >= 4 * window_ns


def test_stretches_of_rows_are_cut_out_in_their_order() -> None:
    at = np.arange(6.0)
    spans = Tiles.of_spans(np.zeros(6, np.int64), 10 * at, at)
    cut = spans.between(np.array([4, 1]), np.array([5, 3]))
    assert cut.source.tolist() == [4, 1, 2]
    assert (cut.start.tolist(), cut.duration.tolist()) == ([40, 10, 20], [4, 1, 2])
    assert len(spans.between(np.array([], np.int64), np.array([], np.int64))) == 0
    assert spans.between(np.array([0]), np.array([6])) is spans
    assert spans.between(np.array([0]), np.array([5])).source.tolist() == [0, 1, 2, 3, 4]


def test_a_tile_is_named_after_the_first_of_its_longest_spans() -> None:
    # Two tiles of a stretch of 100 ns: of spans of 3, 7 and 7 ns, and of 2 and 1.
    spans = Tiles.of_spans(
        np.zeros(5, np.int64),
        np.array([0.0, 10, 20, 100, 110]),
        np.array([3.0, 7, 7, 2, 1]),
    )
    tiles = tiled(spans, 100.0)
    assert (tiles.source.tolist(), tiles.count.tolist()) == ([1, 3], [3, 2])
    assert tiles.duration.tolist() == [27.0, 11.0]
    assert tiles.busy.tolist() == [17 / 27, 3 / 11]


def test_spans_without_a_length_cover_the_time_they_have() -> None:
    points = Tiles.of_spans(np.zeros(2, np.int64), np.array([5.0, 5.0]), np.zeros(2))
    tiles = tiled(points, 16.0)
    assert (tiles.count.tolist(), tiles.duration.tolist(), tiles.busy.tolist()) == ([2], [0], [1])
