"""Operators: the spans of a step are summed query by query, slowest first."""

from services.analyzer.tables.operators import ANALYSIS
from tests.services.analyzer.tables.reading import MS, query, rows_of, span, table_of

_SPANS = [
    span(0, 1, "query", 100),
    span(1, 2, "decode", 10),
    span(2, 2, "decode", 15),
    span(3, 2, "predict", 75),
]


def test_the_slowest_comes_first_with_both_shares() -> None:
    run = {"run": "r0", "level": 2, "queries": [query(0, 0, 100)], "spans": _SPANS}
    table = table_of(ANALYSIS, run)
    predict, decode = rows_of(table)
    assert (predict["operator"], predict["share_of_operators"]) == ("predict", 0.75)
    assert (decode["calls"], decode["queries"], decode["time"]) == (2, 1, 25.0)
    assert decode["share_of_query"] == 0.25
    assert table.verdict.startswith(
        "The intervals do not tell which operator is the slowest in r0: predict or decode; predict "
    )


def test_the_slowest_is_named_where_its_interval_is_apart() -> None:
    spans = [
        span(2 * n + part, 2, name, duration, of=n)
        for n in range(9)
        for part, (name, duration) in enumerate((("decode", 20 + n % 3), ("predict", 80 + n % 3)))
    ]
    run = {"run": "r0", "level": 2, "queries": [query(n, 0, 100) for n in range(9)], "spans": spans}
    verdict = table_of(ANALYSIS, run).verdict
    assert verdict == "The slowest operator is predict, in r0: 79.4% of the operators' time."


def test_calls_that_overlapped_say_behind_what_they_waited() -> None:
    run = {"run": "r0", "level": 2, "queries": [query(0, 0, 100)], "spans": _SPANS}
    overlapped, alone = (
        table_of(ANALYSIS, run | {"conditions": {"calls_in_flight": count}}) for count in (2, 1)
    )
    assert "slowest in r0, behind one other call: " in overlapped.verdict
    assert overlapped.caveats[-1].startswith("r0: 2 calls were under way at a time")
    assert "behind" not in " ".join([alone.verdict, *alone.caveats])


def test_deeper_runs_carry_a_caveat_and_give_no_verdict() -> None:
    queries = [query(0, 0, 100)]
    slow = [span(0, 2, "predict", 900)]
    table = table_of(
        ANALYSIS,
        {"run": "r0", "level": 3, "queries": queries, "spans": slow},
        {"run": "r1", "level": 2, "queries": queries, "spans": _SPANS},
    )
    assert "in r1" in table.verdict
    assert "r0: predict includes the cost of tracing layers" in table.caveats


def test_a_run_with_samples_prepared_ahead_says_where_its_other_steps_are() -> None:
    spans = [span(0, 1, "query", 2 * MS), span(1, 2, "predict", MS)]
    run = {"run": "r0", "level": 2, "queries": [query(0, 0, MS)], "spans": spans}
    note = "r0: samples were prepared ahead; its other steps are in the table preparation"
    assert note in table_of(ANALYSIS, run | {"conditions": {"samples": "ahead"}}).caveats
    assert note not in table_of(ANALYSIS, run | {"conditions": {"samples": "streamed"}}).caveats
