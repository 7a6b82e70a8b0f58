"""The histograms of loads: bars in their buckets, a curve that ends at all, links to queries."""

from itertools import pairwise
from typing import Any

import pytest

from mlscope.statistics.latency_buckets import bounds_ns
from schemas.analysis import Table
from services.gateway.pages.results.histograms import Histogram, histograms_of
from tests.services.gateway.pages.results.test_picture import a_table

TRACE = "/evaluations/e/trace"


def a_bar(bucket: int, count: int, share: float, query: int, **more: Any) -> dict[str, Any]:
    """Return the row of a `bucket` in run r0."""
    begins, ends = bounds_ns(bucket)
    load = {"run": "r0", "scenario": "online", "batch_size": 1, "level": "model", "agent": "a1"}
    bar = {"bucket": bucket, "begins": begins, "ends": ends, "count": count}
    rest = {"cumulative_share": share, "slowest": ends - 1, "slowest_query": query}
    return load | bar | rest | more


def tables(*rows: dict[str, Any]) -> dict[str, Table]:
    """Return the table of the distribution of latency."""
    return a_table("latency_histogram", *rows)


@pytest.fixture
def figure() -> Histogram:
    """Return the histogram of a run whose slowest query is far from the others."""
    rows = [a_bar(160, 6, 0.6, 3), a_bar(161, 3, 0.9, 8), a_bar(170, 1, 1.0, 5)]
    [figure] = histograms_of(tables(*rows), {"r0": TRACE})
    return figure


def test_bars_stand_in_their_buckets_and_lead_to_their_slowest_query(figure: Histogram) -> None:
    assert figure.places == 11
    assert [(bar.place, bar.height) for bar in figure.bars] == [(0, 100), (1, 50), (10, 16.67)]
    assert figure.bars[1].address == f"{TRACE}?run=r0&query=8"
    assert figure.bars[1].text == (
        "1.14 ms to 1.25 ms: 3 queries; 90.0% are at least as fast; the slowest is query 8, 1.25 ms"
    )
    assert (figure.bars[-1].slowest, figure.fullest) == ("query 5, 2.72 ms", 6)


def test_the_curve_rises_only_where_queries_are_and_ends_at_all(figure: Histogram) -> None:
    assert figure.curve == "M0,100L0,100.0L1,40.0L1,40.0L2,10.0L10,10.0L11,0.0"


def test_the_axis_has_its_ends(figure: Histogram) -> None:
    assert [tick.at for tick in figure.ticks] == pytest.approx([0, 45.45, 100])
    assert (figure.ticks[0].text, figure.ticks[-1].text) == ("1.05 ms", "2.72 ms")


def test_no_label_of_the_axis_lies_on_another() -> None:
    for last in range(151, 190):
        [figure] = histograms_of(tables(a_bar(150, 1, 0.5, 0), a_bar(last, 1, 1.0, 1)), {})
        places = [tick.at for tick in figure.ticks]
        assert min(after - before for before, after in pairwise(places)) >= 38


def test_each_load_has_one_at_its_shallowest_level() -> None:
    deep = a_bar(160, 1, 1.0, 0, run="deep", level="framework")
    other = a_bar(160, 1, 1.0, 0, run="b4", batch_size=4)
    figures = histograms_of(tables(deep, a_bar(150, 1, 1.0, 0), other), {})
    assert [figure.run for figure in figures] == ["r0", "b4"]
    assert figures[0].bars[0].address == ""
    assert len(figures[0].ticks) == 2


def test_without_the_table_there_is_none() -> None:
    assert histograms_of({}, {}) == []
