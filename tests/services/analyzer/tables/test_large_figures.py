"""Figures of 10,000 and more in verdicts and caveats: in digits, as tables show them."""

from typing import Any

import pytest

from services.analyzer.building.table import Analysis
from services.analyzer.tables.cold_start import ANALYSIS as COLD_START
from services.analyzer.tables.host_counters import ANALYSIS as HOST_COUNTERS
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.optimal_batch import ANALYSIS as OPTIMAL_BATCH
from services.analyzer.tables.roof_distance import ANALYSIS as ROOF_DISTANCE
from services.analyzer.tables.throughput import ANALYSIS as THROUGHPUT
from tests.services.analyzer.tables.reading import query, span, table_of
from tests.services.analyzer.tables.traced import V100, layer_run, model_run

Runs = list[dict[str, Any]]


def _quick(size: int = 1, apart_ns: int = 30_000, **more: Any) -> dict[str, Any]:
    """Return a run of queries of 30 us."""
    queries = [query(n, n * apart_ns, n * apart_ns + 30_000, size=size) for n in range(40)]
    return {"run": f"b{size}", "batch_size": size, "queries": queries} | more


def _pairs() -> dict[str, Any]:
    """Return a run of two samples a query, one query after the other."""
    return _quick(2, queries=[query(n, n * 59_000, (n + 1) * 59_000, size=2) for n in range(40)])


def _due() -> dict[str, Any]:
    queries = [query(n, n * 7000, n * 7000 + 900, due=n * 7000) for n in range(40)]
    return {"run": "open", "scenario": "poisson", "queries": queries}


def _faults() -> dict[str, Any]:
    return _quick(level=5, series=[["perf.page-faults", 9, 0, None, 2_160_419.0, "1"]])


def _far() -> dict[str, Any]:
    device_attributes = [[0, "far", "T", "", "", None, None, 100, 11, 10]]
    return layer_run((0, "far", 9000), layers=device_attributes, conditions=V100)


def _cold() -> dict[str, Any]:
    queries = [[0, 0, 1, None, 0, 0, 200_000_000, 200_000_000, 0]]
    told = {"run": "c", "level": 2, "scenario": "cold", "session": "c", "queries": queries}
    return told | {"spans": [span(1, 2, "predict", 123_456_789)]}


@pytest.mark.parametrize(
    ("analysis", "runs", "said"),
    [
        (THROUGHPUT, [_quick()], "Highest throughput: 33333 samples/s (33333 … 33333) in"),
        (LATENCY, [_quick(scenario="batched")], "33333 samples/s"),
        (LATENCY, [_due()], "at 142857 queries/s"),
        (
            OPTIMAL_BATCH,
            [_quick(), _pairs()],
            "the highest throughput, 33898 samples/s (33898 … 33898), is at 2",
        ),
        (HOST_COUNTERS, [_faults()], "takes 54010 page-faults"),
        (ROOF_DISTANCE, [_far()], "428571 (no interval) times the roof's minimum time"),
        (COLD_START, [model_run(), _cold()], "12346 times a warm one"),
    ],
    ids=lambda given: given.name if isinstance(given, Analysis) else "",
)
def test_a_verdict_says_no_powers_of_ten(analysis: Analysis, runs: Runs, said: str) -> None:
    assert said in table_of(analysis, *runs).verdict


def test_a_caveat_says_no_powers_of_ten() -> None:
    (told,) = [c for c in table_of(OPTIMAL_BATCH, _quick(2, 59_000)).caveats if "/ latency" in c]
    assert "is 66667 samples/s, but throughput 34" in told
