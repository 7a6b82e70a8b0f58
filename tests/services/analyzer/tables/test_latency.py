"""Latency: from due, or issued in a closed loop; failed queries stay out and are counted."""

from typing import Any

import pytest

from services.analyzer.tables.latency import ANALYSIS, ONLY_COUNTERS, representative
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import MS, query, rows_of, table_of


def test_an_open_loop_counts_from_due_times() -> None:
    queries = [query(n, 10 * MS, 12 * MS, due=7 * MS) for n in range(3)]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "queries": queries}))
    assert (row["median"], row["min"], row["max"]) == (5 * MS, 5 * MS, 5 * MS)


def test_the_trimmed_mean_drops_a_fifth_at_each_end() -> None:
    times = [1, 10, 20, 30, 1000]
    queries = [query(n, 0, ms * MS) for n, ms in enumerate(times)]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "queries": queries}))
    assert row["trimmed_mean"] == 20 * MS


def test_failed_queries_are_counted_and_told() -> None:
    failed = query(1, 0, 900 * MS)
    failed[-1] = 1
    table = table_of(ANALYSIS, {"run": "r0", "queries": [query(0, 0, MS), failed]})
    (row,) = rows_of(table)
    assert (row["count"], row["failed"], row["max"]) == (1, 1, MS)
    assert "r0: 1 of 2 queries failed" in table.caveats


def test_failed_queries_are_told_with_the_first_reason() -> None:
    failed = [*query(0, 0, MS)[:-1], 1]
    run = {"run": "r0", "queries": [failed], "failures": [[1, "sample 0: decode: torn", 1, "0"]]}
    table = table_of(ANALYSIS, run, samples=[["a.jpg", [], "p/a.jpg"]])
    told = "r0: 1 of 1 query failed, first: sample 0 (p/a.jpg): decode: torn"
    assert told in table.caveats


def test_a_run_that_was_cut_off_is_the_result_only_without_another() -> None:
    part = {"run": "part", "end": "cancelled", "queries": [query(n, 0, MS) for n in range(9)]}
    assert "(part, cancelled after 9 queries)." in table_of(ANALYSIS, part).verdict
    whole = {"run": "whole", "level": 2, "queries": [query(0, 0, MS)]}
    assert "(whole)." in table_of(ANALYSIS, part, whole).verdict


def test_few_queries_certify_no_tail() -> None:
    table = table_of(ANALYSIS, {"run": "r0", "queries": [query(0, 0, MS)]})
    assert any("1 answered query: too few to certify p90" in caveat for caveat in table.caveats)


@pytest.mark.parametrize(("pacing", "is_told"), [("local", False), ("remote", True)])
def test_what_remote_pacing_adds_to_a_latency_is_told(pacing: str, is_told: bool) -> None:
    run = {"run": "r0", "pacing": pacing, "queries": [query(0, 5, 9, due=0)]}
    note = "r0: pacing is remote: latency includes the network and the queue, "
    told = [c for c in table_of(ANALYSIS, run).caveats if c.startswith(note)]
    assert bool(told) is is_told


def test_a_serialised_run_is_the_result_only_where_there_is_no_other() -> None:
    serial = {"run": "z", "variant": "serialised", "queries": [query(0, 0, 9 * MS)]}
    plain = {"run": "a", "level": 2, "queries": [query(0, 0, 5 * MS)]}
    assert table_of(ANALYSIS, serial, plain).verdict.endswith("(a).")
    assert table_of(ANALYSIS, serial).verdict.endswith("(z).")


def _represented(*runs: dict[str, Any]) -> str:
    return representative(list(frames_in({"runs": list(runs)}).measured)).row.run


def test_the_result_of_calls_that_overlapped_says_behind_what_they_waited() -> None:
    conditions = {"samples": "ahead", "calls_in_flight": 2}
    run = {"run": "a", "queries": [query(0, 0, 5 * MS)], "conditions": conditions}
    table = table_of(ANALYSIS, run)
    assert table.verdict.endswith("(a, samples ahead, behind one other call).")
    assert any(note.startswith("a: 2 calls were under way") for note in table.caveats)


def test_a_load_is_represented_by_its_smallest_batch_or_highest_rate() -> None:
    one = {"run": "one", "queries": [query(0, 0, 4 * MS)]}
    eight = {"run": "eight", "batch_size": 8, "queries": [query(0, 0, 5 * MS, size=8)]}
    assert _represented(eight, one) == "one"
    assert _represented(one | {"end": "interrupted"}, eight) == "eight"
    assert _represented(one | {"level": 3}, eight | {"level": 2}) == "eight"
    assert _represented(*(run | {"scenario": "batched"} for run in (one, eight))) == "eight"


def test_a_run_for_hardware_counters_has_no_result() -> None:
    replay = {"run": "h", "level": 6, "queries": [query(0, 0, 9 * MS)]}
    alone = table_of(ANALYSIS, replay)
    assert alone.verdict == ONLY_COUNTERS
    assert rows_of(alone)[0]["result"] == "no result: a run for hardware counters"
    timed = {"run": "a", "level": 2, "scenario": "batched", "queries": [query(0, 0, 5 * MS)]}
    verdict = table_of(ANALYSIS, replay, timed).verdict
    assert (
        verdict == "Final performance result: batched at batch 1 200 samples/s (no interval) (a)."
    )
    assert table_of(ANALYSIS, {"run": "h", "level": 6}).verdict == "No query was answered."


def test_one_query_has_no_percentile_and_says_so() -> None:
    table = table_of(ANALYSIS, {"run": "c", "scenario": "cold", "queries": [query(0, 0, 5 * MS)]})
    (row,) = rows_of(table)
    assert (row["median"], row["p90"], row["p99"]) == (5.0 * MS, None, None)
    assert row["result"] == "5 ms in one query, which has no percentile"


def test_a_result_has_its_interval_and_says_where_the_budget_ended_first() -> None:
    queries = [query(n, n * 9 * MS, n * 9 * MS + (5 + n % 2) * MS) for n in range(80)]
    early = "ended at 4 blocks, its budget of 10 s spent: its 90th percentile has no interval"
    table = table_of(ANALYSIS, {"run": "a", "queries": queries, "caveats": [early]})
    assert "trimmed mean 5.50 ms (5.31 … 5.69), 90th percentile 6.00 ms (6.00 … 6.00)" in (
        table.verdict
    )
    assert table.verdict.endswith("(a, less precise than requested).")
    assert f"a: {early}" in table.caveats


@pytest.mark.parametrize(
    ("count", "doubt"), [(63, ", not certified by 63 queries"), (64, "")], ids=["few", "enough"]
)
def test_a_result_is_certified_from_64_queries_on(count: int, doubt: str) -> None:
    # At most one of n queries is above the p90 by a chance of 0.9^n + n 0.1 0.9^(n-1): from 64
    # queries on that is below 1%.
    queries = [query(n, n * 9 * MS, n * 9 * MS + 5 * MS) for n in range(count)]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "a", "queries": queries}))
    equal = "5.00 ms (5.00 … 5.00)"
    assert row["result"] == f"trimmed mean {equal}, 90th percentile {equal}{doubt}"


def test_replays_that_answered_are_named_though_others_did_not() -> None:
    replay = {"run": "h", "level": 6, "queries": [query(0, 0, 9 * MS)]}
    silent = {"run": "i", "level": 6}
    assert table_of(ANALYSIS, replay, silent).verdict == ONLY_COUNTERS
