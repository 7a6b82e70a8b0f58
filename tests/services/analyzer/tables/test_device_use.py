"""Device use: unions instead of sums, gaps that the host made, and what binds."""

import pytest

from services.analyzer.tables.device_use import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, span, table_of
from tests.services.analyzer.tables.traced import copy, kernel_run, memset, model_run, work_row

_NO_COUNTERS = (None, None, None, None, 2)


def _run(*work: tuple[int, int, int]) -> dict[str, object]:
    """Return a run of one query: start, duration and launch of each kernel, in ns."""
    rows = [[0, 0, "k", start, ns, *_NO_COUNTERS, launch] for start, ns, launch in work]
    return kernel_run(count=1) | {"kernels": rows}


def test_streams_side_by_side_are_busy_once() -> None:
    (row,) = rows_of(table_of(ANALYSIS, _run((0, 4000, 0), (1000, 4000, 500))))
    assert (row["busy"], row["kernels"], row["overlap"]) == (5000.0, 8000.0, 3000.0)
    assert (row["gaps"], row["gap_median"]) == (0.0, None)


def test_a_gap_is_the_hosts_only_when_work_came_too_late() -> None:
    early = (2000, 1000, 100)
    late = (5000, 1000, 4000)
    (row,) = rows_of(table_of(ANALYSIS, _run((0, 1000, 0), early, late)))
    assert (row["gaps"], row["gap_total"], row["waiting"]) == (2.0, 3000.0, 2000.0)


@pytest.mark.parametrize(
    ("ns", "bound"), [(9000, "device-bound"), (6000, "mixed"), (1000, "host-bound")]
)
def test_what_binds_goes_by_the_busy_share(ns: int, bound: str) -> None:
    (row,) = rows_of(table_of(ANALYSIS, _run((0, ns, 0))))
    assert (row["busy_share"], row["bound"]) == (ns / 10_000, bound)


def test_work_beyond_predict_leaves_negative_idle_time_as_it_is() -> None:
    (row,) = rows_of(table_of(ANALYSIS, _run((0, 12_000, 0))))
    assert (row["idle"], row["busy_share"]) == (-2000.0, 1.2)


def test_without_launches_nobody_waited_as_far_as_known() -> None:
    (row,) = rows_of(table_of(ANALYSIS, kernel_run((0, "k", 100), count=1)))
    assert (row["waiting"], row["launch_delay"]) == (None, None)


def test_what_binds_is_told_of_predict_that_nothing_traced() -> None:
    quick = [span(1000 + n, 2, "predict", 8000, of=n) for n in range(3)]
    table = table_of(ANALYSIS, model_run(spans=quick), _run((0, 6800, 0)))
    (row,) = rows_of(table)
    assert (row["predict"], row["idle"]) == (10_000.0, 3200.0)
    told = (row["latency_run"], row["latency_queries"], row["latency"], row["busy_share"])
    assert told == ("m", 3, 8000.0, 0.85)
    said = "At batch 1 the device is busy for 85.0% of predict (s, predict of m): device-bound."
    assert table.verdict == said


def test_a_predict_that_was_traced_deeply_alone_is_doubted() -> None:
    slowed = "s: no run stops at level model; its predict includes the cost of tracing level system"
    run = _run((0, 6800, 0))
    assert any(each.startswith(slowed) for each in table_of(ANALYSIS, run).caveats)
    assert not any("level model" in each for each in table_of(ANALYSIS, model_run(), run).caveats)


def test_copies_that_fill_the_device_are_told() -> None:
    rows = [work_row((0, "k", 4000), 0), *[work_row(copy(0, 4000), 3000)] * 2]
    table = table_of(ANALYSIS, kernel_run(count=1) | {"kernels": rows})
    (row,) = rows_of(table)
    assert (row["busy"], row["copies"], row["copy_share"]) == (7000.0, 8000.0, 4 / 7)
    assert table.verdict.endswith("(s), 57.1% of that with copies: mixed.")
    assert "copies" not in table_of(ANALYSIS, _run((0, 4000, 0))).verdict


def test_sets_are_neither_kernels_nor_copies() -> None:
    (row,) = rows_of(table_of(ANALYSIS, kernel_run((0, "k", 4000), memset(0, 1000), count=1)))
    told = (row["kernels"], row["copies"], row["sets"], row["busy"], row["overlap"])
    assert told == (4000.0, 0.0, 1000.0, 5000.0, 0.0)
