"""Throughput and speed-up over batch sizes, and systems side by side."""

import pytest

from services.analyzer.comparisons.cost import COMPARISON as COST
from services.analyzer.comparisons.source import Source, Terms
from services.analyzer.comparisons.speedup import COMPARISON as SPEEDUP
from services.analyzer.comparisons.systems import COMPARISON as SYSTEMS
from services.analyzer.comparisons.throughput import COMPARISON as THROUGHPUT
from tests.services.analyzer.comparisons.reading import batch, rows, source, table_of

MS = 1_000_000
FAST = source("fast", batch(1, MS), batch(2, MS), batch(4, 4 * MS))
SLOW = source("slow", batch(1, 4 * MS, agent="b"), batch(2, 4 * MS, agent="b"))


def test_each_evaluation_has_a_row_a_batch_size() -> None:
    told = rows(THROUGHPUT, FAST, SLOW)
    rates = [(row["evaluation"], row["batch_size"], row["samples_per_s"]) for row in told]
    assert rates[:3] == [("fast", 1, 1000.0), ("fast", 2, 2000.0), ("fast", 4, 1000.0)]
    assert rates[3:] == [("slow", 1, 250.0), ("slow", 2, 500.0)]
    verdict = table_of(THROUGHPUT, [FAST, SLOW]).verdict
    assert verdict == "Highest throughput: 2000 samples/s (2000 … 2000) of fast on a at batch 2."


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
        "latencies are those of queries of batch sizes 1, 8",
    )


def test_systems_are_told_apart_by_what_differs() -> None:
    verdict = table_of(SYSTEMS, [FAST, SLOW]).verdict
    assert verdict == "Lowest latency: a (fast); highest throughput: a (fast)."
    other = source("other", batch(1, MS // 2, model="n"))
    verdict = table_of(SYSTEMS, [FAST, other]).verdict
    assert verdict.startswith(
        "Lowest latency: n:1 on a (other), 0.500 (0.500 … 0.500) times that of m:1 on a (fast)"
    )
    again = source("again", batch(1, MS // 2, framework="ort"))
    first = source("first", batch(1, MS, framework="ort"))
    assert (
        "a (ort) in again, 0.500 (0.500 … 0.500) times" in table_of(SYSTEMS, [first, again]).verdict
    )


def test_unlike_scenarios_are_told() -> None:
    other = source("other", batch(1, MS, scenario="batched"))
    notes = table_of(SYSTEMS, [source("one", batch(1, MS, scenario="online")), other]).caveats
    assert any(note.startswith("scenarios differ: batched, online") for note in notes)


def test_no_gain_is_not_called_one() -> None:
    table = table_of(SPEEDUP, [source("flat", batch(1, MS), batch(2, 4 * MS))])
    assert table.verdict.startswith(
        "Larger batches gain nothing: batch 2 has 0.500 (0.500 … 0.500) times"
    )
    assert (
        "gains the most: batch 2 has 2.00 (2.00 … 2.00) times" in table_of(SPEEDUP, [FAST]).verdict
    )


def test_verdicts_say_no_powers_of_ten() -> None:
    slow, quick = source("slow", batch(1, 900 * MS)), source("quick", batch(1, 7000))
    both = [slow, source("quick", batch(1, 7000), batch(2, 9000))]
    assert (
        "throughput: 222222 samples/s (222222 … 222222) of quick"
        in table_of(THROUGHPUT, both).verdict
    )
    assert (
        "128571 (128571 … 128571) times that of a (slow)"
        in table_of(SYSTEMS, [slow, quick]).verdict
    )
    dear = table_of(COST, [slow], Terms(prices={"a": 50.0}))
    assert "batch 1: $12500 (12500 … 12500) a million" in dear.verdict
    rare = source("rare", batch(1, 900 * MS), batch(2, 7000))
    assert (
        "batch 2 has 257143 (257143 … 257143) times the throughput"
        in table_of(SPEEDUP, [rare]).verdict
    )


def test_batches_whose_gains_overlap_are_not_told_apart() -> None:
    few = [batch(size, (9 + size) * MS, count=8) for size in (2, 4)]
    rough = source("rough", batch(1, 10 * MS), *few)
    verdict = table_of(SPEEDUP, [rough]).verdict
    assert verdict.startswith(
        "No larger batch has a speed-up whose interval is above 1: batch 4 has 3.08 (no interval)"
    )
    assert table_of(THROUGHPUT, [rough]).verdict == (
        "The intervals do not tell which throughput is the highest: 308 samples/s (no interval) of "
        "rough on a at batch 4, 182 samples/s (no interval) of rough on a at batch 2 or 100 "
        "samples/s (100 … 100) of rough on a at batch 1."
    )
    table = table_of(SYSTEMS, [rough])
    assert "highest throughput: a (rough)" in table.verdict
    assert [row["optimal_batch"] for row in rows(SYSTEMS, rough)] == [None]


def _speedup_verdict(*estimates: tuple[float, float, float]) -> str:
    """Return the verdict about batches 8 and 32 with these speed-ups over batch 1."""
    columns = ("batch_size", "samples_per_s", "samples_per_s_low", "samples_per_s_high")
    sizes = (1, 8, 32)
    values = [
        (size, *(100 * end for end in ends))
        for size, ends in zip(sizes, [(1.0, 1.0, 1.0), *estimates], strict=True)
    ]
    table = FAST.tables["optimal_batch"]
    names = [column.name for column in table.columns]
    row = dict(zip(names, table.rows[0], strict=True))
    changed = [row | dict(zip(columns, each, strict=True)) for each in values]
    cells = tuple(tuple(each[n] for n in names) for each in changed)
    batches = table.model_copy(update={"rows": cells})
    return table_of(SPEEDUP, [Source("fast", {**FAST.tables, "optimal_batch": batches})]).verdict


def test_what_is_said_of_all_larger_batches_holds_for_each() -> None:
    rises = _speedup_verdict((1.3, 1.2, 1.4), (1.5, 0.9, 2.4))
    assert rises.startswith("The intervals do not tell which gains the most: ")
    falls = _speedup_verdict((0.95, 0.92, 0.99), (0.9, 0.6, 1.4))
    assert falls.startswith("No larger batch has a speed-up whose interval is above 1: ")
    none = _speedup_verdict((0.95, 0.92, 0.99), (0.9, 0.6, 0.99))
    assert none.startswith("Larger batches gain nothing: ")


def test_a_system_has_a_best_batch_only_beyond_doubt() -> None:
    one = source("one", batch(1, MS))
    few = [batch(size, (9 + size) * MS, count=8) for size in (2, 4)]
    rough = source("rough", batch(1, 10 * MS), *few)
    sizes = [(row["best_batch_size"], row["optimal_batch"]) for row in rows(SYSTEMS, one, rough)]
    assert sizes == [(1, None), (None, None)]
    assert [row["best_batch_size"] for row in rows(SYSTEMS, FAST)] == [2]


def test_rivals_of_two_evaluations_of_one_model_are_named_apart() -> None:
    both = [source(name, batch(1, MS)) for name in ("one", "two")]
    place = "m:1 on a at batch 1"
    told = f"{place} (evaluation one) or {place} (evaluation two)"
    cost = table_of(COST, both, Terms(prices={"a": 1.0})).verdict
    assert cost.startswith(f"The intervals do not tell which is the cheapest: {told}; about $")


def test_systems_that_intervals_do_not_tell_apart_lead_together() -> None:
    alike = source("alike", batch(1, MS, agent="c"), batch(2, MS, agent="c"))
    assert table_of(SYSTEMS, [FAST, alike]).verdict == (
        "The intervals do not tell which has the lowest latency: a (fast) or c (alike); "
        "the intervals do not tell which has the highest throughput: a (fast) or c (alike)."
    )
    # The same latency of another throughput: only one of both is in doubt.
    slower = source("slower", batch(1, MS, agent="c"))
    assert table_of(SYSTEMS, [FAST, slower]).verdict.endswith("; highest throughput: a (fast).")


def test_systems_without_a_closed_loop_are_none() -> None:
    due = [[n, 0, 1, n * MS, n * MS, n * MS, n * MS + 9, 9, 0] for n in range(9)]
    offered = source("open", batch(1, MS, queries=due, scenario="poisson"))
    table = table_of(SYSTEMS, [offered])
    assert (table.rows, table.verdict) == (
        (),
        "No evaluation measured latency in a closed loop.",
    )


def test_a_single_system_is_its_own_measure() -> None:
    (row,) = rows(SYSTEMS, FAST)
    ends = [row[f"relative_latency{end}"] for end in ("_low", "", "_high")]
    assert (ends, row["is_base"]) == ([1.0, 1.0, 1.0], True)
