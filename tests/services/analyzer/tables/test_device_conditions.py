"""Conditions of a GPU: how its clocks moved, and what held them down for how long."""

from typing import Any

import pytest

from services.analyzer.building.throttling import REASONS_SERIES
from services.analyzer.tables.device_conditions import ANALYSIS
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from tests.services.analyzer.tables.reading import MS, query, rows_of, table_of
from tests.services.analyzer.tables.traced import named


def _run(name: str, *values: float, **more: Any) -> dict[str, Any]:
    unit = "MHz" if "clock" in name else "1"
    series = [[name, n * MS, 0, 0, value, unit] for n, value in enumerate(values)]
    told = {"run": "s", "level": 5, "device": "gpu", "queries": [query(0, 0, 9 * MS)]}
    return told | {"series": series} | more


def test_a_clock_moved_by_what_lies_between_its_ends() -> None:
    table = table_of(ANALYSIS, _run("nvml.clock_sm", 1980, 1800, 2000))
    (row,) = rows_of(table)
    assert (row["min"], row["median"], row["max"]) == (1800, 1980, 2000)
    assert row["moved"] == pytest.approx(200 / 1980)
    assert "changed by 10.1% at most, 1800 to 2000 MHz in s" in table.verdict
    assert "s: its GPU's clock was sampled only 3 times" in table.caveats


def test_each_reason_has_its_share_and_settings_slow_nothing() -> None:
    table = table_of(ANALYSIS, _run(REASONS_SERIES, 0x2, 0x6, 0x24, 0x1, 0x200))
    rows = named(rows_of(table), "what").items()
    assert {name: (row["share"], row["slows"]) for name, row in rows} == {
        "throttled": (0.4, True),
        "idle": (0.2, False),
        "clocks set for applications": (0.4, False),
        "software power cap": (0.4, True),
        "software thermal slow-down": (0.2, True),
        "reason 0x200": (0.2, False),
    }
    reasons = "software power cap, software thermal slow-down"
    assert f"throttled by {reasons} for 40.0% of the time in s" in table.verdict


def test_a_throttled_run_says_so_beside_latencies() -> None:
    told = table_of(LATENCY, _run(REASONS_SERIES, 0x40, 0, 0, 0)).caveats
    slowed = "clocks were lowered for 25% of the time, by hardware thermal slow-down (over 1%)"
    assert any(slowed in each for each in told)
    for steady in (_run(REASONS_SERIES, 0x3, 0), _run(REASONS_SERIES, 0x40, device="cpu")):
        assert not any("lowered" in each for each in table_of(LATENCY, steady).caveats)


def test_replays_and_other_devices_tell_nothing_of_timed_runs() -> None:
    table = table_of(ANALYSIS, _run("nvml.clock_sm", 1, 2000, variant="counters"))
    assert len(table.rows) == 1
    assert table.verdict.startswith("Clocks were only sampled in runs")
    assert table_of(ANALYSIS, _run("nvml.clock_sm", 1, 2000, device="cuda:1")).rows == ()
