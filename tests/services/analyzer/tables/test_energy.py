"""Energy: power integrated over a run's own blocks, by device."""

from typing import Any

import pytest

from services.analyzer.tables.energy import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of

S = 1_000_000_000


def _query(number: int, block: int, begin_s: float, end_s: float, size: int = 1) -> list[Any]:
    begin, end = round(begin_s * S), round(end_s * S)
    return [number, block, size, None, begin, begin, end, end - begin, 0]


def _power(at_s: float, watts: float, block: int = 0, device: int = 0) -> list[Any]:
    return ["nvml.power", round(at_s * S), block, device, watts, "W"]


def test_time_between_blocks_costs_nothing() -> None:
    queries = [_query(0, 0, 0, 1), _query(1, 1, 10, 11)]
    series = [_power(0.5, 100), _power(10.5, 300, block=1)]
    run = {"run": "r", "device": "gpu", "queries": queries, "series": series}
    (row,) = rows_of(table_of(ANALYSIS, run))
    assert (row["energy"], row["power"], row["per_query"]) == (400.0, 200.0, 200.0)


def test_a_sample_has_its_share_of_a_batch() -> None:
    run = {"run": "r", "device": "gpu", "batch_size": 4, "queries": [_query(0, 0, 0, 2, size=4)]}
    (row,) = rows_of(table_of(ANALYSIS, run | {"series": [_power(1, 50)]}))
    assert (row["energy"], row["per_sample"], row["answered"]) == (100.0, 25.0, 4)


def test_only_the_runs_own_device_has_a_row() -> None:
    series = [_power(0.5, 100, device=0), _power(0.5, 40, device=1)]
    run = {"run": "r", "queries": [_query(0, 0, 0, 1)], "series": series}
    told = {"gpu": [(0, 100.0)], "cuda:1": [(1, 40.0)], "cpu": []}
    for device, expected in told.items():
        rows = rows_of(table_of(ANALYSIS, run | {"device": device}))
        assert [(row["device"], row["energy"]) for row in rows] == expected


def test_the_devices_that_kernels_ran_on_are_a_runs_own() -> None:
    series = [_power(0.5, 100, device=0), _power(0.5, 40, device=1)]
    kernel = [3, None, 5, "gemm", 60, 20, 7, 0, 0, None, 2, 9, 1, 7]
    run = {"run": "r", "device": "gpu", "queries": [_query(0, 0, 0, 1)], "series": series}
    (row,) = rows_of(table_of(ANALYSIS, run | {"spans": [kernel]}))
    assert row["device"] == 1


def test_few_values_are_called_few_and_none_has_no_row() -> None:
    run = {"run": "r", "device": "gpu", "queries": [_query(0, 0, 0, 1)]}
    assert "No run sampled power" in table_of(ANALYSIS, run).verdict
    table = table_of(ANALYSIS, run | {"series": [_power(0.5, 100)]})
    assert any("mean of 1 values only" in caveat for caveat in table.caveats)
    other = ["nvml.clock_sm", 0, 0, 0, 1980.0, "MHz"]
    assert table_of(ANALYSIS, run | {"series": [other]}).rows == ()


def test_power_rises_in_a_straight_line_between_values() -> None:
    run = {"run": "r", "queries": [_query(0, 0, 0, 2)], "series": [_power(0, 0), _power(2, 100)]}
    (row,) = rows_of(table_of(ANALYSIS, run | {"device": "gpu"}))
    assert row["energy"] == pytest.approx(100.0)
