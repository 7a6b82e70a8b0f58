"""The picture at the head: marks in order on an axis, intervals drawn, no end invented."""

from typing import Any

from schemas.analysis import Column, Table
from services.gateway.pages.results.picture import (
    MOST_LANES,
    latency_picture,
    nice_steps,
    rate_picture,
)

MS = 1e6
_TEXTS = ("run", "scenario", "level", "agent")


def a_table(name: str, *rows: dict[str, Any]) -> dict[str, Table]:
    """Return a table of rows given as maps."""
    columns = tuple(
        Column(name=column, type="text" if column in _TEXTS else "float", unit="ns")
        for column in rows[0]
    )
    return {name: Table(name=name, title=name, columns=columns, rows=tuple(map(_cells, rows)))}


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def latency_row(level: str, batch: int, median: float, high: float | None) -> dict[str, Any]:
    """Return a row with a median and a p99, whose upper end is `high`."""
    load = {"run": f"{batch}-{level}", "scenario": "online", "batch_size": batch, "level": level}
    medians = {"median": median, "median_low": 0.9 * median, "median_high": 1.1 * median}
    tail = {"p99": 2 * median, "p99_low": 1.8 * median, "p99_high": high}
    return load | medians | tail


def test_a_load_is_drawn_once_at_its_shallowest_level() -> None:
    rows = [latency_row("framework", 1, 6 * MS, None), latency_row("model", 1, 5 * MS, None)]
    picture = latency_picture(a_table("latency", *rows))
    assert picture is not None
    [lane] = picture.lanes
    assert lane.label == "online, batch 1"
    assert [mark.text for mark in lane.marks] == [
        "p50 5.00 ms (4.50 … 5.50)",
        "p99 10.0 ms (9.0 … unknown)",
    ]


def test_marks_stand_in_order_and_an_unknown_end_is_drawn_open() -> None:
    picture = latency_picture(a_table("latency", latency_row("model", 1, 5 * MS, None)))
    assert picture is not None
    median, tail = picture.lanes[0].marks
    assert median.low is not None
    assert median.high is not None
    assert median.low < median.at < median.high < tail.at < tail.open_to
    assert tail.high is None
    assert picture.legend == [("p50", median.colour), ("p99", tail.colour)]


def test_values_far_apart_are_on_a_logarithmic_axis_and_near_ones_begin_at_zero() -> None:
    far = [latency_row("model", 1, MS, 3 * MS), latency_row("model", 64, 90 * MS, 300 * MS)]
    picture = latency_picture(a_table("latency", *far))
    assert picture is not None
    assert picture.is_logarithmic
    near = latency_picture(a_table("latency", latency_row("model", 1, MS, 3 * MS)))
    assert near is not None
    assert not near.is_logarithmic
    assert near.ticks[0].text == "0"


def test_loads_without_room_are_counted() -> None:
    rows = [latency_row("model", 2**size, MS, 3 * MS) for size in range(MOST_LANES + 2)]
    picture = latency_picture(a_table("latency", *rows))
    assert picture is not None
    assert (len(picture.lanes), picture.left_out) == (MOST_LANES, 2)


def test_without_figures_there_is_no_picture() -> None:
    assert latency_picture({}) is None
    assert latency_picture(a_table("latency", {"run": "r0", "median": None})) is None
    assert rate_picture({}) is None


def rate_row(batch: int, rate: float, low: float | None, high: float | None) -> dict[str, Any]:
    """Return a row of throughput."""
    load = {"run": f"b{batch}", "scenario": "batched", "batch_size": batch, "level": "model"}
    return load | {"samples_per_s": rate, "samples_per_s_low": low, "samples_per_s_high": high}


def test_throughput_by_batch_size_stands_from_zero_with_its_intervals() -> None:
    rows = [rate_row(4, 80.0, 70.0, 100.0), rate_row(1, 40.0, None, None)]
    picture = rate_picture(a_table("throughput", *rows))
    assert picture is not None
    first, second = picture.series[0].points
    assert (first.low, first.high) == (None, None)
    assert first.x < second.x
    assert second.high is not None
    assert second.low is not None
    assert second.high < second.y < second.low < first.y < picture.height
    assert [tick.text for tick in picture.batches] == ["1", "4"]
    assert picture.rates[0].at == picture.height


def test_one_batch_size_is_no_curve() -> None:
    assert rate_picture(a_table("throughput", rate_row(4, 80.0, 70.0, 100.0))) is None


def test_steps_are_round() -> None:
    assert nice_steps(56.1) == [0.0, 20.0, 40.0]
    assert nice_steps(100.0) == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    assert nice_steps(8.9) == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert nice_steps(0.0) == [0.0]


def test_on_a_narrow_screen_texts_of_an_axis_do_not_touch() -> None:
    rows = [latency_row("model", 1, 45 * MS, 2500 * MS)]
    picture = latency_picture(a_table("latency", *rows))
    assert picture is not None
    assert [(tick.text, tick.is_crowded) for tick in picture.ticks] == [
        ("50 ms", False),
        ("100 ms", True),
        ("200 ms", False),
        ("500 ms", False),
        ("1 s", True),
        ("2 s", False),
    ]
