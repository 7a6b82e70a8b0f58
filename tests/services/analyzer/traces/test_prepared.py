"""A prepared run has every span and query once, in its lane, and no two on top of one another."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.batch import SpanKind
from schemas.trace import SPAN_COLUMNS, ShowWindow
from services.analyzer.traces.columns import QUERY_WIRE, SAMPLE_WIRE, WIRE, unpacked
from services.analyzer.traces.details import details_of, row_of
from services.analyzer.traces.prepared import Stored, prepared
from services.analyzer.traces.resolutions import Prepared
from services.analyzer.traces.windows import Window
from services.analyzer.traces.windows import window_of as window_or_none

_NAMES = {0: "conv", 1: "relu", 2: "power"}
_SPAN = st.tuples(
    st.integers(1, 5),
    st.sampled_from([0, 1, 2, 6]),
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(-5, 60),
    st.integers(-1, 30),
)
_SPANS = st.lists(_SPAN, max_size=40)


def stored_of(rows: Sequence[tuple[int, ...]], queries: int = 0) -> Stored:
    """Return spans (level, kind, name, thread, start, duration) and a queue of queries."""
    columns = dict.fromkeys(WIRE, np.full(len(rows), -1, np.int64)) | dict(
        zip(
            ("level", "kind", "name", "thread", "start_ns", "duration_ns"),
            np.array(rows, np.int64).reshape(-1, 6).T,
            strict=True,
        )
    )
    columns["span"] = np.arange(1, len(rows) + 1)
    number = np.arange(queries)
    load = dict.fromkeys(QUERY_WIRE, np.zeros(queries, np.int64)) | {
        "query": number,
        "due_ns": 10 * number,
        "issued_ns": 10 * number + 2,
        "started_ns": 10 * number + 5,
        "ended_ns": 10 * number + 25,
    }
    return Stored(columns, _NAMES, load, unpacked({}, SAMPLE_WIRE), {2: "W"})


def window_of(trace: Prepared, request: ShowWindow) -> Window:
    window = window_or_none(trace, request)
    assert window is not None
    return window


def _spans(trace: Prepared, **fields: int) -> pl.DataFrame:
    return window_of(trace, ShowWindow(evaluation="e1", **fields)).frame


@given(_SPANS, st.integers(0, 5))
def test_every_span_and_query_is_in_one_lane(rows: list[tuple[int, ...]], queries: int) -> None:
    trace = prepared(stored_of(rows, queries))
    ids = trace.frame["id"].to_list()
    assert sorted(span for span in ids if span > 0) == list(range(1, len(rows) + 1))
    assert sum(span < 0 for span in ids) == 3 * queries
    counts = dict(trace.frame["lane"].value_counts().iter_rows())
    assert counts == {lane.lane: lane.spans for lane in trace.lanes}
    assert [lane.lane for lane in trace.lanes] == list(range(len(trace.lanes)))


@given(_SPANS, st.integers(0, 5))
def test_no_two_spans_of_a_lane_and_depth_overlap(
    rows: list[tuple[int, ...]], queries: int
) -> None:
    trace = prepared(stored_of(rows, queries))
    for spans in trace.frame.partition_by("lane", "depth"):
        for (start, duration), (later, _) in pairwise(spans.select("start", "duration").rows()):
            assert later >= start + max(duration, 1)
    depths = dict(trace.frame.group_by("lane").agg(pl.col("depth").max()).iter_rows())
    assert depths == {lane.lane: lane.depth_max for lane in trace.lanes}


@given(_SPANS, st.integers(-10, 90), st.integers(0, 60), st.integers(0, 20))
def test_a_window_has_every_span_that_touches_it(
    rows: list[tuple[int, ...]], begin: int, length: int, width: int
) -> None:
    trace = prepared(stored_of(rows, 3))
    end = pl.col("start") + pl.max_horizontal("duration", 1.0)
    touching = trace.frame.filter(pl.col("start") < begin + length, end > begin)
    times = {"from_ns": begin, "to_ns": begin + length}
    assert sorted(_spans(trace, **times)["id"]) == sorted(touching["id"])
    tiles = _spans(trace, **times, min_ns=width)
    assert tiles.columns == list(SPAN_COLUMNS)
    assert tiles["count"].sum() == touching.height
    assert tiles.filter(pl.col("busy") > 1).is_empty()


def test_the_load_is_drawn_from_due_to_answered() -> None:
    trace = prepared(stored_of([], 2))
    assert [lane.level for lane in trace.lanes] == ["query", "late", "queued"]
    columns = ("name", "start", "duration", "depth", "query")
    assert trace.frame.select(columns).rows() == [
        ("answered", 0.0, 25.0, 0, 0),
        ("answered", 10.0, 25.0, 1, 1),
        ("issued late", 0.0, 2.0, 0, 0),
        ("issued late", 10.0, 2.0, 0, 1),
        ("queued", 2.0, 3.0, 0, 0),
        ("queued", 12.0, 3.0, 0, 1),
    ]


def test_counters_have_values_and_units() -> None:
    sample = (5, int(SpanKind.SAMPLE), 2, 0, 7, 0)
    stored = stored_of([sample])
    samples = {"span": np.array([1]), "value": np.array([12.5])}
    trace = prepared(replace(stored, samples=samples))
    (lane,) = trace.lanes
    assert (lane.group, lane.title, lane.level) == ("counter", "power", "W")
    assert _spans(trace)["value"].to_list() == [12.5]


def test_only_wanted_lanes_and_columns_come() -> None:
    trace = prepared(stored_of([(3, 0, 0, 1, 0, 9), (3, 0, 1, 2, 0, 9)]))
    request = ShowWindow(evaluation="e1", lanes=(1,), columns=("id", "name"))
    assert window_of(trace, request).frame.rows() == [("relu", 2)]


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_a_limit_makes_tiles_that_say_how_many_they_are(limit: int) -> None:
    trace = prepared(stored_of([(3, 0, 0, 1, 10 * number, 5) for number in range(200)]))
    window = window_of(trace, ShowWindow(evaluation="e1", limit=limit))
    assert window.frame.height <= max(limit, 2)
    assert (window.spans, window.frame["count"].sum()) == (200, 200)
    assert window.min_ns > 5


def test_wide_windows_of_long_traces_are_made_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = stored_of([(3, 0, number % 2, 1, 10 * number, 5) for number in range(5000)])
    plain = _spans(prepared(stored), min_ns=300)
    monkeypatch.setattr("services.analyzer.traces.resolutions._BASE_FROM", 1000)
    monkeypatch.setattr("services.analyzer.traces.resolutions._BASE_PIXELS", 1000)
    monkeypatch.setattr("services.analyzer.traces.resolutions.OUTLINED_FROM", 1000)
    monkeypatch.setattr("services.analyzer.traces.resolutions._OUTLINE_PIXELS", 200)
    based = prepared(stored)
    assert [resolution.width_ns for resolution in based.resolutions] == [0, 32, 128]
    assert _spans(based, min_ns=300).equals(plain)
    outline = replace(based, resolutions=based.resolutions[2:])
    assert _spans(outline, min_ns=300).equals(plain)
    assert window_or_none(outline, ShowWindow(evaluation="e1", min_ns=100)) is None
    assert window_or_none(outline, ShowWindow(evaluation="e1")) is None


@pytest.mark.parametrize(
    "text", ["{", "[1]", '"a"', "[" * 100_000, '{"x": ' + "[" * 40 + "]" * 40 + "}"]
)
def test_attributes_that_are_no_json_object_are_left_out(text: str) -> None:
    trace = prepared(stored_of([(2, 0, 2, 1, 0, 100)]))
    assert details_of("e1", "r0", trace, 0, (2, text, 7)).attributes == {}


def test_a_span_has_ancestors_children_and_namesakes() -> None:
    rows = [(2, 0, 2, 1, 0, 100), (3, 0, 0, 1, 10, 20), (3, 0, 0, 1, 40, 30), (3, 0, 1, 1, 80, 5)]
    trace = prepared(stored_of(rows))
    details = details_of("e1", "r0", trace, row_of(trace, 3) or 0, (2, '{"flops": 5}', 7))
    assert [span.id for span in details.ancestors] == [1]
    assert (details.block, details.attributes) == (2, {"flops": 5})
    assert (details.level, details.layer) == ("layer", 7)
    same = details.same_name
    assert same is not None
    assert (same.count, same.least_ns, same.most_ns, same.rank) == (2, 20, 30, 1.0)
    assert (same.previous, same.next) == (2, None)
    whole = details_of("e1", "r0", trace, row_of(trace, 1) or 0)
    assert [span.id for span in whole.children] == [2, 3, 4]
    assert whole.total_children == 3
