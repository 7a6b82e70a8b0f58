"""Counts and quantiles of live batches, against numpy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.client.meter import Meter
from mlscope.statistics.latency_buckets import BUCKETS_PER_OCTAVE
from tests.stories import queries


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=300))
def test_quantiles_are_near_the_exact_ones(latencies_ns: list[int]) -> None:
    meter = Meter()
    meter.count_queries(queries(latencies_ns))
    reading = meter.read()["r0"]
    assert reading.answered == len(latencies_ns)
    assert sum(reading.histogram.values()) == len(latencies_ns)
    shares = ((50, reading.p50_ns), (90, reading.p90_ns), (99, reading.p99_ns))
    for share, found in shares:
        exact = int(np.percentile(latencies_ns, share, method="inverted_cdf"))
        assert abs(found - exact) <= 0.003 * exact + 1


def test_a_batch_counts_once_and_an_older_attempt_not_at_all() -> None:
    meter = Meter()
    for _ in range(2):
        meter.count_queries(queries([5, 5]))
        meter.count_spans("r0", 1, 0, 10)
    assert (meter.read()["r0"].answered, meter.read()["r0"].spans) == (2, 10)
    meter.count_spans("r0", 2, 0, 7)
    meter.count_spans("r0", 1, 1, 100)
    assert (meter.read()["r0"].answered, meter.read()["r0"].spans) == (0, 7)


def test_made_up_runs_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlscope.client.meter._MOST_RUNS", 2)
    meter = Meter()
    for run in ("r0", "r1", "r2", "r0"):
        meter.count_spans(run, 1, 0, 7)
    meter.count_spans("r1", 2, 0, 5)
    assert {run: reading.spans for run, reading in meter.read().items()} == {"r0": 7, "r1": 5}


def test_what_was_not_heard_is_counted() -> None:
    meter = Meter()
    meter.count_queries(queries([1000] * 10, sequence=3))
    assert meter.read()["r0"].unheard == 3
    for sequence in (0, 1, 2, 4):
        meter.count_queries(queries([1000] * 10, sequence=sequence))
    assert meter.read()["r0"].unheard == 0


def test_failed_queries_have_no_latency() -> None:
    batch = queries([1000, 10**9]).model_copy(update={"status": bytes([0, 1])})
    meter = Meter()
    meter.count_queries(batch)
    reading = meter.read()["r0"]
    assert (reading.answered, reading.failed) == (1, 1)
    assert reading.p99_ns < 2000


def test_two_readings_give_throughput_and_queries_in_flight() -> None:
    meter = Meter()
    meter.count_queries(queries([1000, 3000]))
    reading = meter.read()["r0"]
    assert (reading.busy_ns, reading.samples) == (4000, 2)
    assert reading.until_ns > 0


def test_a_bucket_begins_where_it_says() -> None:
    meter = Meter()
    meter.count_queries(queries([2**20, 2**20 + 1, 2**21]))
    histogram = meter.read()["r0"].histogram
    assert histogram == {20 * BUCKETS_PER_OCTAVE: 2, 21 * BUCKETS_PER_OCTAVE: 1}


def test_each_bucket_names_its_slowest_query() -> None:
    meter = Meter()
    meter.count_queries(queries([2**20, 2**20 + 9, 2**20 + 9, 2**21]))
    assert meter.read()["r0"].slowest == {160: 1, 168: 3}
    meter.count_queries(queries([2**20 + 5, 2**21 + 5], sequence=1))
    assert meter.read()["r0"].slowest == {160: 1, 168: 1}
