"""The distribution of latency: every answered query is in one bucket, and the slowest is named."""

from services.analyzer.tables.latency_histogram import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, table_of

MS = 1_000_000


def test_every_answered_query_counts_once() -> None:
    times = [1 * MS, 3 * MS, 1 * MS, 1 * MS + 1, 9 * MS]
    queries = [query(n, 0, ns) for n, ns in enumerate(times)]
    rows = rows_of(table_of(ANALYSIS, {"run": "r", "queries": queries}))
    assert [row["count"] for row in rows] == [3, 1, 1]
    assert [row["cumulative_share"] for row in rows] == [0.6, 0.8, 1.0]
    assert [row["slowest_query"] for row in rows] == [3, 1, 4]
    assert all(row["begins"] <= row["slowest"] < row["ends"] for row in rows)


def test_of_equally_slow_queries_the_first_is_named() -> None:
    queries = [query(n, 0, 5 * MS) for n in range(3)]
    [row] = rows_of(table_of(ANALYSIS, {"run": "r", "queries": queries}))
    assert (row["slowest_query"], row["count"]) == (0, 3)


def test_without_answers_it_says_so() -> None:
    table = table_of(ANALYSIS, {"run": "r", "queries": []})
    assert (table.rows, table.verdict) == ((), "No query was answered.")
