"""Energy: power integrated over a run's own blocks, by device."""

from typing import Any

import polars as pl
import pytest

from services.analyzer.tables.energy import ANALYSIS, joules_of
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


ONE_QUERY = {"run": "r", "device": "gpu", "queries": [_query(0, 0, 0, 1)]}


def test_few_values_are_called_few() -> None:
    table = table_of(ANALYSIS, ONE_QUERY | {"series": [_power(0.5, 100)]})
    assert any("mean of only 1 value" in caveat for caveat in table.caveats)


def test_a_run_without_energy_has_no_row() -> None:
    clock = ["nvml.clock_sm", 0, 0, 0, 1980.0, "MHz"]
    assert table_of(ANALYSIS, ONE_QUERY | {"series": [clock]}).rows == ()
    assert "No run has energy counters" in table_of(ANALYSIS, ONE_QUERY).verdict


def test_power_rises_in_a_straight_line_between_values() -> None:
    run = {"run": "r", "queries": [_query(0, 0, 0, 2)], "series": [_power(0, 0), _power(2, 100)]}
    (row,) = rows_of(table_of(ANALYSIS, run | {"device": "gpu"}))
    assert row["energy"] == pytest.approx(100.0)


def test_power_is_constant_beyond_its_first_and_last_value() -> None:
    power = pl.DataFrame({"at_ns": [2 * S, 4 * S], "value": [50.0, 150.0]})
    assert joules_of(power, 0, 2 * S) == pytest.approx(100.0)
    assert joules_of(power, 2 * S, 4 * S) == pytest.approx(200.0)
    assert joules_of(power, 3 * S, 6 * S) == pytest.approx(125.0 + 300.0)


def _counted(block: int, begin_s: float, end_s: float, joules: float, **more: Any) -> list[Any]:
    """Return the two values of a counter around a block."""
    name, device = more.get("name", "energy.gpu"), more.get("device", 0)
    ends = ((begin_s, 0.0), (end_s, joules))
    return [[name, round(at * S), block, device, value, "J"] for at, value in ends]


def _counted_run(level: int = 2, **more: Any) -> dict[str, Any]:
    queries = [_query(0, 0, 0, 2), _query(1, 1, 10, 14)]
    series = [*_counted(0, 0, 2, 200), *_counted(1, 10, 14, 800)]
    told = {"run": "m", "level": level, "device": "gpu", "queries": queries, "series": series}
    return told | more


def test_a_run_at_level_model_has_the_joules_of_its_counter() -> None:
    (row,) = rows_of(table_of(ANALYSIS, _counted_run()))
    assert (row["source"], row["part"], row["level"]) == ("energy.gpu", "gpu", "model")
    assert (row["energy"], row["per_sample"]) == (1000.0, 500.0)
    assert row["power"] == pytest.approx(1000 / 6)
    assert (row["power_low"], row["power_high"]) == (100.0, 200.0)
    assert row["resolution"] == pytest.approx(2 / 11 / 6)


def test_blocks_shorter_than_the_counter_tells_have_no_energy() -> None:
    queries = [_query(0, 0, 0, 0.5), _query(1, 1, 1, 1.4)]
    series = [*_counted(0, 0, 0.5, 90), *_counted(1, 1, 1.4, 0)]
    table = table_of(ANALYSIS, _counted_run(queries=queries, series=series))
    (row,) = rows_of(table)
    assert (row["energy"], row["per_sample"], row["power"]) == (None, None, None)
    assert any("changes 11 times a second, 2 blocks took 0.9 s" in c for c in table.caveats)
    assert "No run has blocks long enough for its energy counters" in table.verdict
    power: dict[str, Any] = {"level": 5, "run": "s", "series": [_power(0.2, 100)]}
    deeper = table_of(ANALYSIS, _counted_run(queries=queries, series=series), _counted_run(**power))
    assert " of the gpu in s at batch 1" in deeper.verdict
    assert "s: its energy includes that of tracing level system" in deeper.caveats


def test_sampled_power_stands_in_for_a_counter_that_is_too_coarse() -> None:
    short: dict[str, Any] = {"queries": [_query(0, 0, 0, 0.5)], "level": 5}
    series = [*_counted(0, 0, 0.5, 90), _power(0.2, 100)]
    (row,) = rows_of(table_of(ANALYSIS, _counted_run(**short, series=series)))
    assert (row["source"], row["energy"]) == ("nvml.power", 50.0)
    long = _counted_run(level=5, series=[*_counted_run()["series"], _power(0.2, 100)])
    assert [row["source"] for row in rows_of(table_of(ANALYSIS, long))] == ["energy.gpu"]


def test_the_verdict_is_of_queries_that_were_traced_least() -> None:
    cheaper = [*_counted(0, 0, 2, 20), *_counted(1, 10, 14, 80)]
    deep = _counted_run(level=5, run="s", series=cheaper)
    table = table_of(ANALYSIS, _counted_run(), deep)
    assert "in m at batch 1" in table.verdict
    assert len(table.rows) == 2
    alone = table_of(ANALYSIS, deep)
    assert "s: its energy includes that of tracing level system" in alone.caveats
    assert not any("includes that of tracing" in caveat for caveat in table.caveats)


def test_a_hosts_packages_are_a_cpu_runs_own() -> None:
    series = [
        *_counted(0, 0, 2, 100, name="energy.package", device=0),
        *_counted(0, 0, 2, 60, name="energy.package", device=1),
        *_counted(0, 0, 2, 9, name="energy.dram", device=1),
        *_counted(0, 0, 2, 500),
    ]
    run = _counted_run(device="cpu", queries=[_query(0, 0, 0, 2)], series=series)
    told = [(r["part"], r["device"], r["energy"]) for r in rows_of(table_of(ANALYSIS, run))]
    assert told == [("package", 0, 100.0), ("package", 1, 60.0), ("dram", 1, 9.0)]


def test_replays_and_openings_have_no_energy_of_an_inference() -> None:
    runs = [_counted_run(variant=variant, run=variant) for variant in ("counters", "cold")]
    table = table_of(ANALYSIS, *runs)
    alone = "Energy was counted only in cold starts and replays, not for inference."
    assert (table.rows, table.verdict) == ((), alone)
    bare = table_of(ANALYSIS, _counted_run(variant="cold", series=[]))
    assert "No run has energy counters" in bare.verdict


def test_a_samples_energy_has_an_interval_over_blocks_and_of_its_counter() -> None:
    queries = [_query(n, n, 10 * n, 10 * n + 4) for n in range(4)]
    series = [v for n in range(4) for v in _counted(n, 10 * n, 10 * n + 4, 100 + 20 * n)]
    (row,) = rows_of(table_of(ANALYSIS, _counted_run(queries=queries, series=series)))
    # 100, 120, 140, 160 J: their mean, with t(0.975, 3) = 3.182 times 25.8 / 2.
    assert row["per_sample"] == 130.0
    assert row["per_sample_low"] == pytest.approx(130 - 3.182 * 12.91, abs=0.1)
    assert row["per_sample_high"] == pytest.approx(130 + 3.182 * 12.91, abs=0.1)
    steady = [v for n in range(4) for v in _counted(n, 10 * n, 10 * n + 4, 100)]
    (row,) = rows_of(table_of(ANALYSIS, _counted_run(queries=queries, series=steady)))
    assert row["per_sample_high"] == pytest.approx(100 * (1 + row["resolution"]))
    one = {"queries": [_query(0, 0, 0, 2)], "series": [_power(1, 50)], "run": "r", "device": "gpu"}
    (row,) = rows_of(table_of(ANALYSIS, one))
    assert (row["per_sample"], row["per_sample_low"]) == (100.0, None)


def test_loads_whose_energy_is_not_told_apart_are_said_to_be_so() -> None:
    queries = [_query(n, n, 10 * n, 10 * n + 4) for n in range(4)]
    runs = []
    for name, base, size in (("a", 100, 1), ("b", 105, 2)):
        series = [v for n in range(4) for v in _counted(n, 10 * n, 10 * n + 4, base + 20 * n)]
        runs.append(_counted_run(run=name, batch_size=size, queries=queries, series=series))
    verdict = table_of(ANALYSIS, *runs).verdict
    assert "the intervals do not tell which load takes the least: a at batch 1 or b" in verdict
