"""Tail: what slow queries spend their time on."""

from typing import Any

import pytest

from services.analyzer.tables.tail import ANALYSIS, LEAST_QUERIES, parts_of
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import query, rows_of, span, table_of
from tests.services.analyzer.tables.traced import named


def _run(count: int, slow: dict[int, tuple[int, int, int]]) -> dict[str, Any]:
    """Return queries with late issue, decode and predict of 0, 100 and 1000 ns, or of `slow`."""
    queries, spans = [], []
    for n in range(count):
        late, decode, predict = slow.get(n, (0, 100, 1000))
        begin = n * 100_000
        queries.append(query(n, begin + late, begin + late + decode + predict, due=begin))
        spans += [
            span(2 * n, 2, "decode", decode, of=n),
            span(2 * n + 1, 2, "predict", predict, of=n),
        ]
    return {"run": "r", "level": 2, "queries": queries, "spans": spans}


def test_the_part_with_the_difference_is_named() -> None:
    table = table_of(ANALYSIS, _run(40, {7: (50, 5100, 1000)}))
    rows = named(rows_of(table), "part")
    assert rows["query"]["excess"] == 5050
    assert (rows["decode"]["excess"], rows["issued late"]["excess"]) == (5000, 50)
    assert rows["predict"]["excess"] == 0
    assert table.verdict.endswith("99.0% of it in decode.")


def test_lateness_is_a_reason_of_its_own() -> None:
    table = table_of(ANALYSIS, _run(40, {7: (9000, 100, 1000)}))
    assert table.verdict.endswith("100.0% of it from being issued late.")


def test_time_outside_operators_is_not_in_them() -> None:
    run = _run(40, {})
    run["queries"][7] = query(7, 700_000, 700_000 + 6100, due=700_000)
    assert table_of(ANALYSIS, run).verdict.endswith("100.0% of it outside operators.")


def test_a_part_with_more_than_the_whole_has_no_share_of_it() -> None:
    table = table_of(ANALYSIS, _run(40, {7: (0, 5100, 900)}))
    assert rows_of(table)[0]["excess"] == 4900
    assert named(rows_of(table), "part")["decode"]["share"] > 1
    assert table.verdict == (
        "The slowest query of r takes 4.9 µs more than typical ones, "
        "all of it in decode (5 µs more; the rest takes less)."
    )


def test_parts_of_operators_explain_the_whole() -> None:
    rows = rows_of(table_of(ANALYSIS, _run(300, {n: (7 * n, 100 + n, 1000) for n in range(9)})))
    whole, parts = rows[0], [row for row in rows[1:] if row["kind"] != "layer"]
    assert whole["slow_queries"] == 3
    assert abs(sum(row["excess"] for row in parts) - whole["excess"]) < 1e-6


def test_a_query_is_waiting_and_operators_and_the_time_outside_them() -> None:
    (run,) = frames_in({"runs": [_run(2, {1: (7, 200, 1000)})]}).measured
    parts = {name: dict(times.sort("query").iter_rows()) for _, name, times in parts_of(run)}
    assert parts == {
        "issued late": {0: 0, 1: 7},
        "waiting to begin": {0: 0, 1: 0},
        "decode": {0: 100, 1: 200},
        "predict": {0: 1000, 1: 1000},
        "outside operators": {0: 0, 1: 0},
    }


def test_few_queries_have_no_tail() -> None:
    table = table_of(ANALYSIS, _run(LEAST_QUERIES - 1, {}))
    assert (table.rows, "no tail" in table.verdict) == ((), True)


def test_queries_all_alike_have_no_reason() -> None:
    table = table_of(ANALYSIS, _run(30, {}))
    assert table.verdict.endswith("0 ns more than typical ones.")
    assert rows_of(table)[0]["share"] is None


def test_one_slow_query_is_one() -> None:
    assert table_of(ANALYSIS, _run(40, {7: (9000, 100, 1000)})).verdict.startswith(
        "The slowest query of r takes "
    )


def _untraced(served_ns: int, begun_ns: int = 0) -> dict[str, Any]:
    """Return a run at level none whose query 7 is slow: it begins late, and is served longer."""
    queries = []
    for n in range(40):
        begin, slow = n * 100_000, n == 7
        end = begin + 1000 + slow * (served_ns + begun_ns)
        queries.append(query(n, begin, end, started=begin + slow * begun_ns))
    return {"run": "r", "queries": queries}


@pytest.mark.parametrize(
    ("served_ns", "begun_ns", "end"),
    [
        (9320, 680, "6.8% of it in waiting to begin; 93.2% of it was not traced."),
        (680, 9320, "93.2% of it in waiting to begin."),
        (5000, 0, "more than typical ones; 100.0% of it was not traced."),
    ],
)
def test_what_nothing_traced_is_told(served_ns: int, begun_ns: int, end: str) -> None:
    assert table_of(ANALYSIS, _untraced(served_ns, begun_ns)).verdict.endswith(end)


def test_more_than_the_whole_is_not_said_to_be_untraced() -> None:
    queries = [query(n, n * 9000 + 50, n * 9000 + 99, due=n * 9000) for n in range(40)]
    queries[7] = query(7, 63_000, 68_000, due=63_000)
    table = table_of(ANALYSIS, {"run": "r", "queries": queries})
    assert table.verdict.endswith("4.9 µs more than typical ones; most of it was not traced.")


def test_the_fewest_queries_with_a_tail_are_twenty() -> None:
    (row, *_) = rows_of(table_of(ANALYSIS, _run(20, {7: (0, 5100, 1000)})))
    assert (row["queries"], row["slow_queries"], row["typical_queries"]) == (20, 1, 4)


def test_of_many_layers_the_five_with_the_largest_difference_are_shown_in_its_order() -> None:
    run = _run(40, {7: (0, 100, 9000)})
    extra_ns = {"a": 10, "b": 500, "c": 40, "d": -300, "e": 900, "f": 20, "g": 30}
    for place, (name, more) in enumerate(extra_ns.items()):
        for n in range(40):
            spent = 400 + more * (n == 7)
            run["spans"].append(span(100 + 10 * n + place, 3, name, spent, of=n, layer=place))
    layers = [
        row for row in rows_of(table_of(ANALYSIS, run | {"level": 3})) if row["kind"] == "layer"
    ]
    most_first = [("e", 900), ("b", 500), ("c", 40), ("g", 30), ("f", 20)]
    assert [(row["part"], row["excess"]) for row in layers] == most_first


def _overlapping(slow_wait: int) -> dict[str, Any]:
    """Return queries that overlap: query 7 waits `slow_wait` ns for predict, others 10 ns."""
    queries, spans = [], []
    for n in range(40):
        begin, wait = n * 100_000, slow_wait if n == 7 else 10
        predict = begin + 60_000 + wait
        end = predict + 50_000
        queries.append([n, 0, 1, None, begin, begin + 5, end, end - begin - 5, 0])
        spans.append([2 * n, None, 2, "decode", begin + 5, 59_995, 0, n, 0, None])
        spans.append([2 * n + 1, None, 2, "predict", predict, 50_000, 1, n, 0, None])
    return {"run": "r", "level": 2, "queries": queries, "spans": spans}


def test_a_query_of_a_pipeline_is_its_stages_and_the_wait_before_each() -> None:
    table = table_of(ANALYSIS, _overlapping(4010))
    told = [(row["kind"], row["part"], row["typical"], row["excess"]) for row in rows_of(table)]
    assert told == [
        ("query", "query", 110_010, 4000),
        ("wait", "issued late", 0, 0),
        ("wait", "waiting for prepare", 5, 0),
        ("stage", "prepare", 59_995, 0),
        ("wait", "waiting for predict", 10, 4000),
        ("stage", "predict", 50_000, 0),
    ]
    assert table.verdict == (
        "The slowest query of r takes 4 µs more than typical ones, "
        "100.0% of it waiting for predict."
    )


def test_several_slow_queries_with_one_cause_leave_no_doubt() -> None:
    table = table_of(ANALYSIS, _run(300, dict.fromkeys(range(3), (0, 5100, 1000))))
    assert table.verdict == (
        "The slowest 3 queries of r take on average 5 µs more than typical ones, "
        "100.0% of it in decode."
    )


def test_several_slow_queries_with_two_causes_are_doubted() -> None:
    slow = {0: (0, 5100, 1000), 1: (0, 100, 6000), 2: (0, 3100, 3000)}
    verdict = table_of(ANALYSIS, _run(300, slow)).verdict
    assert verdict.endswith(
        "; the intervals do not tell which part has most of it: decode or predict."
    )
