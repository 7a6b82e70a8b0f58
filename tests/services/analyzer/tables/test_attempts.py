"""Attempts that failed or were repeated are kept, marked, and counted apart."""

from services.analyzer.tables.attempts import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of


def test_good_first_tries_fill_no_rows() -> None:
    table = table_of(ANALYSIS, {"run": "r0"}, {"run": "r1"})
    assert table.rows == ()
    assert table.verdict == "All 2 attempts succeeded on the first try."


def test_a_repeated_run_shows_the_attempt_that_does_not_count() -> None:
    lost = {"run": "r0", "outcome": "interrupted", "interrupted": "agent lost"}
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "attempt": 2}, others=[lost]))
    assert (row["attempt"], row["counts"], row["cause"]) == (1, False, "agent lost")


def test_a_failed_run_that_counts_says_why() -> None:
    failed = {"run": "r0", "outcome": "failed", "error": "open", "message": "no file"}
    table = table_of(ANALYSIS, failed)
    (row,) = rows_of(table)
    assert (row["counts"], row["error"], row["cause"]) == (True, "open", "no file")
    assert table.verdict.startswith("1 of 1")
