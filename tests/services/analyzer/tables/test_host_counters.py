"""Counters of the host: by block and query, set against each other where both were counted."""

from typing import Any

import pytest

from services.analyzer.tables.host_counters import ANALYSIS
from tests.services.analyzer.tables.reading import MS, query, rows_of, table_of


def _run(*series: list[Any], **more: Any) -> dict[str, Any]:
    queries = [
        query(0, 0, MS),
        query(1, 9 * MS, 10 * MS, block=1),
        query(2, 10 * MS, 11 * MS, block=1),
    ]
    return {"run": "s", "level": 5, "queries": queries, "series": list(series)} | more


def _total(name: str, value: float, block: int = 0, unit: str = "1") -> list[Any]:
    return [name, MS, block, None, value, unit]


def test_a_count_is_a_query_of_its_own_block() -> None:
    table = table_of(
        ANALYSIS, _run(_total("perf.page-faults", 6), _total("perf.page-faults", 4, 1))
    )
    (row,) = rows_of(table)
    assert (row["per_query"], row["blocks"], row["queries"]) == (4.0, 2, 3)
    assert row["per_query_low"] < 4.0 < row["per_query_high"]
    # The time between the blocks is no time of theirs: 10 faults in 3 ms.
    assert row["per_second"] == pytest.approx(10 / 0.003)
    assert table.verdict == "A query of s (batch 1) takes 4 page-faults."


def test_instructions_are_set_against_cycles_where_both_were_counted() -> None:
    cycles, instructions = _total("perf.cycles", 100), _total("perf.instructions", 250)
    table = table_of(ANALYSIS, _run(cycles, instructions))
    told = {row["event"]: (row["ratio"], row["over"]) for row in rows_of(table)}
    assert told == {"instructions": (2.5, "cycles"), "cycles": (None, "")}
    assert "250 instructions at 2.5 instructions per cycle" in table.verdict
    (alone,) = rows_of(table_of(ANALYSIS, _run(instructions)))
    assert (alone["ratio"], alone["over"]) == (None, "")


def test_a_replay_has_counts_and_no_rates() -> None:
    (row,) = rows_of(table_of(ANALYSIS, _run(_total("perf.cycles", 8), variant="counters")))
    assert (row["per_query"], row["per_second"], row["variant"]) == (8.0, None, "counters")


def test_samples_of_memory_are_no_counts() -> None:
    sampled = [_total("resource.rss", 9e6, unit="By"), _total("resource.cpu", 1.0, unit="s")]
    table = table_of(ANALYSIS, _run(*sampled, _total("resource.cpu_user", 0.5, unit="s")))
    assert [(row["event"], row["source"]) for row in rows_of(table)] == [("cpu_user", "resource")]
    assert table.verdict.startswith("No run has counts from perf")


def test_a_run_at_level_hardware_without_cycles_says_so() -> None:
    clock = _total("perf.task-clock", 1e6, unit="ns")
    told = table_of(ANALYSIS, _run(clock, level=6)).caveats
    assert "s: its processor has no hardware counters: no cycles, so no IPC" in told
    assert not any("processor's" in each for each in table_of(ANALYSIS, _run(clock)).caveats)


def test_a_counter_that_took_turns_is_said_to_be_scaled() -> None:
    shared = [[*_total("perf.cycles", 8, block), part] for block, part in ((0, 0.5), (1, None))]
    table = table_of(ANALYSIS, _run(*shared, _total("perf.page-faults", 1)))
    told = {row["event"]: row["counted"] for row in rows_of(table)}
    assert told == {"cycles": 0.5, "page-faults": 1.0}
    scaled = "s: cycles: counted for only 50.0% of the time of a block, and scaled"
    assert [each for each in table.caveats if "scaled" in each] == [scaled]
