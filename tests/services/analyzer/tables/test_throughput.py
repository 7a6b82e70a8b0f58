"""Throughput: samples over the time of the run's own blocks."""

from typing import Any

import pytest

from schemas.run import QUERIES_GUESSED
from services.analyzer.building.table import Analysis
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.throughput import ANALYSIS, ONLY_COUNTERS
from tests.services.analyzer.tables.reading import MS, query, rows_of, table_of


def test_samples_are_counted_not_queries() -> None:
    queries = [query(n, n * 10 * MS, (n + 1) * 10 * MS, size=4) for n in range(50)]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "batch_size": 4, "queries": queries}))
    assert (row["samples"], row["queries"]) == (200, 50)
    assert row["samples_per_s"] == pytest.approx(400.0)
    assert row["queries_per_s"] == pytest.approx(100.0)


def test_time_between_blocks_belongs_to_others() -> None:
    far = 60_000 * MS
    blocks = [
        query(10 * b + n, b * far + n * MS, b * far + (n + 1) * MS, block=b)
        for b in range(2)
        for n in range(10)
    ]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "queries": blocks}))
    assert row["busy_ns"] == 20 * MS
    assert row["samples_per_s"] == pytest.approx(1000.0)


def test_one_thread_of_a_serialised_run_is_not_the_verdict() -> None:
    slow, fast = ([query(n, n * ms, (n + 1) * ms) for n in range(9)] for ms in (2 * MS, MS))
    alone = {"run": "serial", "variant": "serialised", "queries": fast}
    assert " in plain " in table_of(ANALYSIS, alone, {"run": "plain", "queries": slow}).verdict
    assert " in serial " in table_of(ANALYSIS, alone).verdict


def test_a_closed_loop_of_the_shallowest_level_is_the_verdict() -> None:
    fast = [query(n, n * MS, (n + 1) * MS) for n in range(9)]
    due = [query(n, n * MS, n * MS + 9, due=n * MS) for n in range(9)]
    table = table_of(
        ANALYSIS,
        {"run": "open", "queries": due},
        {"run": "deep", "level": 3, "queries": [query(n, n, n + 1) for n in range(9)]},
        {"run": "closed", "level": 2, "queries": fast},
    )
    assert table.verdict.startswith(
        "Highest throughput of a closed loop: 1000 samples/s (no interval) in closed ("
    )
    assert table.verdict.endswith("; runs at deeper trace levels do not count.")
    assert rows_of(table)[0]["offered_per_s"] == pytest.approx(1000.0)


@pytest.mark.parametrize("due", [None, 0])
def test_the_verdict_on_a_run_that_was_cut_off_says_so(due: int | None) -> None:
    queries = [query(n, n * MS, (n + 1) * MS, due=due and n * MS) for n in range(9)]
    part = {"run": "part", "end": "cancelled", "queries": queries}
    assert ", cancelled after 9 queries)" in table_of(ANALYSIS, part).verdict


@pytest.mark.parametrize("due", [None, 0])
def test_a_run_that_was_cut_off_is_the_verdict_only_without_another(due: int | None) -> None:
    fast = [query(n, n * MS, (n + 1) * MS, due=due and n * MS) for n in range(9)]
    slow = [query(n, 2 * n * MS, 2 * (n + 1) * MS, due=due and 2 * n * MS) for n in range(9)]
    part = {"run": "part", "end": "cancelled", "queries": fast}
    verdict = table_of(ANALYSIS, part, {"run": "whole", "queries": slow}).verdict
    assert " in whole " in verdict
    assert "cancelled" not in verdict


def test_nothing_answered_has_no_rate() -> None:
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0"}))
    assert (row["samples"], row["samples_per_s"], row["busy_ns"]) == (0, None, None)


def test_samples_without_an_answer_do_not_count() -> None:
    queries = [[*query(n, n * 10 * MS, (n + 1) * 10 * MS, size=4), 1] for n in range(50)]
    table = table_of(ANALYSIS, {"run": "r0", "batch_size": 4, "queries": queries})
    (row,) = rows_of(table)
    assert (row["samples"], row["queries"]) == (150, 50)
    assert row["samples_per_s"] == pytest.approx(300.0)
    assert row["queries_per_s"] == pytest.approx(100.0)
    assert table.caveats == ("r0: 50 samples failed in partly answered queries; they do not count",)


@pytest.mark.parametrize("analysis", [ANALYSIS, LATENCY], ids=lambda each: each.name)
def test_a_run_whose_queries_an_import_guessed_says_so(analysis: Analysis) -> None:
    told = {"run": "r0", "queries": [query(0, 0, MS)]}
    guess = f"{QUERIES_GUESSED}all of it is one"
    caveats = table_of(analysis, told | {"caveats": ["other", guess]}).caveats
    assert f"r0: {guess}" in caveats
    assert not any("other" in each for each in caveats)


def test_a_run_for_hardware_counters_has_no_rate_to_tell() -> None:
    quick = [query(n, n * MS, (n + 1) * MS) for n in range(9)]
    replay = {"run": "h", "level": 6, "queries": quick}
    assert table_of(ANALYSIS, replay).verdict == ONLY_COUNTERS
    due = [query(n, n * MS, n * MS + 9, due=n * MS) for n in range(9)]
    open_loop = {"run": "open", "variant": "serialised", "queries": due}
    assert " in open (" in table_of(ANALYSIS, replay, open_loop).verdict
    assert table_of(ANALYSIS, {"run": "h", "level": 6}).verdict == "No query was answered."


def test_rates_whose_intervals_overlap_are_not_told_apart() -> None:
    steady = [query(n, n * MS, (n + 1) * MS) for n in range(40)]
    few = [query(n, n * MS, n * MS + MS // 2) for n in range(4)]
    table = table_of(ANALYSIS, {"run": "a", "queries": steady}, {"run": "b", "queries": few})
    assert table.verdict == (
        "The intervals do not tell which throughput is the highest: 1143 samples/s (no interval) "
        "in b or 1000 samples/s (1000 … 1000) in a."
    )


def test_an_offered_rate_is_not_called_the_highest() -> None:
    due = [query(n, n * MS, n * MS + 9, due=n * MS) for n in range(40)]
    verdict = table_of(ANALYSIS, {"run": "open", "scenario": "poisson", "queries": due}).verdict
    assert "queries/s (" in verdict
    assert "were answered of 1000 offered in open" in verdict
    assert "an offered rate" in verdict
    assert "ighest throughput" not in verdict


def test_an_offered_load_counts_queries_of_the_shallowest_level() -> None:
    def of(run: str, level: int, gap_ns: int) -> dict[str, Any]:
        due = [query(n, n * gap_ns, n * gap_ns + 9, due=n * gap_ns, size=4) for n in range(40)]
        return {"run": run, "scenario": "poisson", "batch_size": 4, "level": level, "queries": due}

    verdict = table_of(ANALYSIS, of("deep", 3, 2 * MS), of("plain", 1, MS)).verdict
    assert verdict.startswith("1026 queries/s (")
    assert "of 1000 offered in plain (poisson, batch 4)" in verdict
    assert verdict.endswith("; and 1 more load.")
