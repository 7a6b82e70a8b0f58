"""Throughput and speed-up over batch sizes, and systems side by side."""

import pytest

from services.analyzer.across.speedup import COMPARISON as SPEEDUP
from services.analyzer.across.systems import COMPARISON as SYSTEMS
from services.analyzer.across.throughput import COMPARISON as THROUGHPUT
from tests.services.analyzer.across.reading import batch, rows, source, table_of

MS = 1_000_000
FAST = source("fast", batch(1, MS), batch(2, MS), batch(4, 4 * MS))
SLOW = source("slow", batch(1, 4 * MS, agent="b"), batch(2, 4 * MS, agent="b"))


def test_each_evaluation_has_a_row_a_batch_size() -> None:
    told = rows(THROUGHPUT, FAST, SLOW)
    rates = [(row["evaluation"], row["batch_size"], row["samples_per_s"]) for row in told]
    assert rates[:3] == [("fast", 1, 1000.0), ("fast", 2, 2000.0), ("fast", 4, 1000.0)]
    assert rates[3:] == [("slow", 1, 250.0), ("slow", 2, 500.0)]
    verdict = table_of(THROUGHPUT, [FAST, SLOW]).verdict
    assert verdict == "Most samples a second: 2000 of fast on a at batch 2."


def test_speedup_is_over_the_smallest_batch_of_the_same_agent() -> None:
    told = {
        (row["evaluation"], row["batch_size"]): row["speedup"] for row in rows(SPEEDUP, FAST, SLOW)
    }
    assert told == {
        ("fast", 1): 1.0,
        ("fast", 2): 2.0,
        ("fast", 4): 1.0,
        ("slow", 1): 1.0,
        ("slow", 2): 2.0,
    }


def test_systems_are_normalised_to_the_first_evaluation() -> None:
    base, other = rows(SYSTEMS, FAST, SLOW)
    assert (base["relative_latency"], base["relative_throughput"], base["is_base"]) == (1, 1, True)
    assert other["relative_latency"] == pytest.approx(4.0)
    assert other["relative_throughput"] == pytest.approx(0.25)
    assert (other["best_batch_size"], base["best_batch_size"]) == (2, 2)


def test_unlike_models_and_batch_sizes_are_told() -> None:
    other = source("other", batch(8, MS, model="n"))
    assert table_of(SYSTEMS, [FAST, other]).caveats == (
        "models differ: m, n",
        "latencies are of batch sizes 1, 8: of a query each",
    )
