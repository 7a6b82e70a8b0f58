"""Lateness: issued minus due, of open loops alone."""

import pytest

from services.analyzer.tables.lateness import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, table_of


def test_closed_loops_have_none() -> None:
    table = table_of(ANALYSIS, {"run": "r0", "queries": [query(0, 0, 9)]})
    assert table.rows == ()
    assert table.verdict == "No run had due times."


def test_it_is_counted_from_the_due_time() -> None:
    queries = [query(n, 1000 * n + late, 2000, due=1000 * n) for n, late in enumerate((5, 7, 9))]
    table = table_of(ANALYSIS, {"run": "r0", "queries": queries})
    (row,) = rows_of(table)
    assert (row["count"], row["p50"], row["max"], row["early"]) == (3, 7.0, 9.0, 0)
    assert table.verdict.endswith("; no query is early.")
    assert row["due_per_s"] == pytest.approx(1e6)


def test_an_early_query_is_told() -> None:
    table = table_of(ANALYSIS, {"run": "r0", "queries": [query(0, 99, 200, due=100)]})
    assert rows_of(table)[0]["early"] == 1
    assert "r0: 1 issued early" in table.caveats


def test_what_a_local_query_waits_for_its_worker_is_told_beside() -> None:
    queries = [query(0, 105, 200, due=100, started=140), query(1, 207, 300, due=200, started=220)]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "pacing": "local", "queries": queries}))
    assert (row["p50"], row["begun_p50"], row["begun_p99"]) == (6.0, 30.0, 40.0)


def test_when_a_remote_agent_began_is_not_known() -> None:
    queries = [query(0, 105, 200, due=100)]
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "pacing": "remote", "queries": queries}))
    assert row["begun_p50"] is None
