"""Failures: the reasons of failed queries, whose samples they carried, and how often."""

import pytest

from services.analyzer.tables.failures import ANALYSIS, MOST_REASONS
from tests.services.analyzer.tables.reading import query, rows_of, table_of


def _failed(number: int) -> list[object]:
    return [*query(number, 0, 9)[:-1], 1]


def test_no_failure_fills_no_row() -> None:
    table = table_of(ANALYSIS, {"run": "r0", "queries": [query(0, 0, 9)]})
    assert (table.rows, table.verdict) == ((), "No query failed.")


def test_a_reason_names_the_sample_and_its_file() -> None:
    failures = [[1, "sample 1: decode: torn", 2, "1, 3"]]
    table = table_of(
        ANALYSIS,
        {"run": "r0", "queries": [_failed(1), _failed(3)], "failures": failures},
        samples=[["a.jpg", [], "p/a.jpg"], ["b.jpg", [], "p/b.jpg"]],
    )
    (row,) = rows_of(table)
    assert (row["sample"], row["path"], row["reason"]) == (1, "p/b.jpg", "decode: torn")
    assert (row["queries"], row["first_queries"]) == (2, "1, 3")
    assert table.verdict == "2 of 2 queries failed, first: sample 1 (p/b.jpg): decode: torn."


@pytest.mark.parametrize(
    ("reason", "path"),
    [
        ("decode: not a readable picture (pets/a.jpg)", "pets/a.jpg"),
        ("decode: not a readable picture (IMG (1).jpg)", "IMG (1).jpg"),
        ("decode: torn (errno 5)", ""),
    ],
)
def test_a_file_of_a_source_is_named_in_its_reason(reason: str, path: str) -> None:
    failures = [[1, f"sample 0: {reason}", 1, "0"]]
    run = {"run": "r0", "queries": [_failed(0)], "failures": failures}
    (row,) = rows_of(table_of(ANALYSIS, run))
    assert row["path"] == path


def test_every_sample_of_a_batch_has_its_own_row() -> None:
    error = "sample 4: decode: torn; sample 6: crop: too small"
    run = {"run": "r0", "queries": [_failed(0)], "failures": [[1, error, 1, "0"]]}
    told = [(row["sample"], row["reason"]) for row in rows_of(table_of(ANALYSIS, run))]
    assert told == [(4, "decode: torn"), (6, "crop: too small")]


def test_a_reason_of_no_sample_and_a_lost_query_have_none() -> None:
    failures = [[1, "predict: no; luck", 1, "0"], [2, "", 1, "1"]]
    run = {"run": "r0", "queries": [_failed(0), _failed(1)], "failures": failures}
    told = [
        (row["status"], row["sample"], row["reason"]) for row in rows_of(table_of(ANALYSIS, run))
    ]
    assert told == [("failed", None, "predict: no; luck"), ("lost", None, "no answer came")]


def test_reasons_are_bounded_and_what_is_left_out_is_said() -> None:
    many = MOST_REASONS + 1
    failures = [[1, f"sample {n}: decode: torn", 1, str(n)] for n in range(many)]
    queries = [_failed(n) for n in range(many + 1)]
    table = table_of(ANALYSIS, {"run": "r0", "queries": queries, "failures": failures})
    assert len(table.rows) == MOST_REASONS
    assert table.caveats == (
        f"r0: {MOST_REASONS} of {many} reasons are shown",
        f"r0: reasons were read for {many} of {many + 1} failed queries",
    )


def test_samples_of_queries_answered_in_part_have_rows_and_are_no_failed_queries() -> None:
    error = "sample 4: decode: torn; sample 6: crop: too small; 3 more failed"
    queries = [[*query(0, 0, 9, size=8), 5], query(1, 9, 18, size=8)]
    run = {"run": "r0", "queries": queries, "failures": [[0, error, 1, "0"]]}
    table = table_of(ANALYSIS, run)
    told = [(row["status"], row["sample"], row["reason"]) for row in rows_of(table)]
    assert told == [
        ("in part", 4, "decode: torn"),
        ("in part", 6, "crop: too small"),
        ("in part", None, "3 more samples, omitted from this text"),
    ]
    said = "0 of 2 queries failed, and 5 samples of other queries, first: sample 4: decode: torn."
    assert (table.verdict, table.caveats) == (said, ())


def test_what_was_read_of_queries_answered_in_part_is_no_reason_of_those_that_failed() -> None:
    run = {
        "run": "r0",
        "queries": [[*query(0, 0, 9, size=8), 1], _failed(1)],
        "failures": [[0, "sample 4: decode: torn", 1, "0"]],
    }
    table = table_of(ANALYSIS, run)
    assert table.caveats == ("r0: reasons were read for 0 of 1 failed query",)
