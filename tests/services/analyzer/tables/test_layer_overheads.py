"""What looking deeper costs each layer: paired by block, with an interval, doubted where due."""

from typing import Any

from services.analyzer.tables.layer_overheads import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, table_of


def _run(run: str, level: int, *blocks: tuple[int, ...], **row: Any) -> dict[str, Any]:
    """Return a run of a query a block, whose layers take these times."""
    queries = [query(block, 0, 1000, block=block) for block in range(len(blocks))]
    spans = [
        [100 * block + layer, None, 3, f"conv{layer}", 10 * layer, ns, 0, block, block, layer]
        for block, times in enumerate(blocks)
        for layer, ns in enumerate(times)
    ]
    return {"run": run, "level": level, "queries": queries, "spans": spans, **row}


OWN = _run("l", 3, (100, 50), (200, 60))


def test_each_layer_has_its_own_overhead() -> None:
    first, second = rows_of(table_of(ANALYSIS, OWN, _run("s", 5, (110, 80), (212, 90))))
    assert (first["index"], first["name"], first["time"]) == (0, "conv0", 150.0)
    assert (first["overhead"], first["blocks"]) == (11.0, 2)
    assert (second["overhead"], second["overhead_low"], second["overhead_high"]) == (30, 30, 30)
    assert (second["share"], second["level"]) == (30 / 55, "system")


def test_of_one_block_the_interval_spans_the_ends_of_both_medians() -> None:
    own, deep = (_one_block(*run) for run in (("l", 3, 100), ("s", 5, 130)))
    (row,) = rows_of(table_of(ANALYSIS, own, deep))
    assert (row["blocks"], row["overhead"]) == (1, 30.0)
    # Of ten times the median's interval goes from the second to the ninth (order statistics).
    assert (row["overhead_low"], row["overhead_high"]) == (23.0, 37.0)


def _one_block(run: str, level: int, least_ns: int) -> dict[str, Any]:
    """Return a run of ten queries in a block, whose layer takes a nanosecond more each time."""
    queries = [query(n, 0, 1000, block=0) for n in range(10)]
    spans = [[n, None, 3, "conv", 10, least_ns + n, 0, n, 0, 0] for n in range(10)]
    return {"run": run, "level": level, "queries": queries, "spans": spans}


def test_every_deeper_run_has_rows() -> None:
    deeper = [_run("b", 4, (100, 50), (200, 60)), _run("s", 5, (110, 80), (212, 90))]
    rows = rows_of(table_of(ANALYSIS, OWN, *deeper))
    assert [(row["level"], row["index"]) for row in rows] == [
        ("library", 0), ("library", 1), ("system", 0), ("system", 1)
    ]  # fmt: skip


def test_dropped_records_are_a_doubt() -> None:
    deeper = _run("s", 5, (110, 80), (212, 90), dropped_records=1)
    assert {row["valid"] for row in rows_of(table_of(ANALYSIS, OWN, deeper))} == {False}


def test_a_serialised_run_is_not_compared_with_an_overlapping_one() -> None:
    deeper = _run("s", 5, (110, 80), session="b1-serialised", variant="serialised")
    table = table_of(ANALYSIS, OWN, deeper)
    assert table.rows == ()
    assert table.verdict == "No session has both a run at level framework and a deeper one."


def _with_predict(run: dict[str, Any], *times: int) -> dict[str, Any]:
    spans = [[100 + n, None, 2, "predict", 0, ns, 0, n, n] for n, ns in enumerate(times)]
    return run | {"spans": [*run["spans"], *spans]}


def test_a_layer_that_costs_more_than_predict_does_not_hold() -> None:
    own = _with_predict(_run("l", 3, (100, 50), (100, 50), (100, 51)), 160, 160, 161)
    deep = _with_predict(_run("s", 5, (102, 90), (103, 91), (102, 91)), 170, 171, 170)
    first, second = rows_of(table_of(ANALYSIS, own, deep))
    assert (first["valid"], first["doubt"]) == (True, "")
    assert (second["valid"], "adds more to the part" in second["doubt"]) == (False, True)


def test_a_layer_behind_another_may_cost_more_than_predict() -> None:
    own = _with_predict(_run("l", 3, (100, 50), (100, 50), (100, 51)), 100, 100, 101)
    deep = _with_predict(_run("s", 5, (102, 90), (103, 91), (102, 91)), 103, 103, 103)
    for run in (own, deep):
        for span in run["spans"]:
            span[6] = span[9] if len(span) > 9 else 0
    assert all(row["valid"] for row in rows_of(table_of(ANALYSIS, own, deep)))


def test_what_may_be_noise_costs_nothing_beyond_doubt() -> None:
    deep = _run("s", 5, (100, 450), (230, 60))
    assert (
        "to add time (whole interval above 0) in none of 2 rows."
        in table_of(ANALYSIS, OWN, deep).verdict
    )


def test_the_most_costly_layer_is_one_beyond_doubt() -> None:
    table = table_of(ANALYSIS, OWN, _run("s", 5, (105, 450), (205, 60)))
    assert "in 1 of 2 rows, most to conv0 at level system: 5 ns" in table.verdict


def test_layers_that_intervals_do_not_tell_apart_are_named_together() -> None:
    steady = table_of(ANALYSIS, OWN, _run("s", 5, (110, 60), (210, 70)))
    assert steady.verdict == (
        "Deeper tracing is seen to add time (whole interval above 0) in 2 of 2 rows; the intervals "
        "do not tell to which layer it adds most: conv0 or conv1."
    )


def test_of_many_layers_some_seem_slower_by_chance() -> None:
    # Of 40 intervals of 95%, one lies wholly above 0 by chance.
    times = tuple(range(100, 140))
    own, deep = (_run(name, level, times, times) for name, level in (("l", 3), ("s", 5)))
    for span in deep["spans"]:
        span[5] += 7 if span[9] else 9
    assert table_of(ANALYSIS, own, deep).verdict == (
        "Deeper tracing is seen to add time (whole interval above 0) in 40 of 40 rows (about 1 "
        "expected by chance), most to conv0 at level system: 9 ns, 9.0% of its time."
    )


def test_rows_that_do_not_hold_are_counted_and_lead_nothing() -> None:
    slower, faster = _run("b", 4, (110, 60), (210, 70)), _run("s", 5, (90, 50), (190, 60))
    table = table_of(ANALYSIS, OWN, slower, faster)
    assert [row["valid"] for row in rows_of(table)] == [True, True, False, True]
    assert "above 0) in 2 of 4 rows; " in table.verdict
    assert table.verdict.endswith("; 1 row does not hold.")


def test_a_layers_own_time_is_the_median_of_its_blocks() -> None:
    own = _run("l", 3, (100,), (110,), (900,))
    (row,) = rows_of(table_of(ANALYSIS, own, _run("s", 5, (107,), (117,), (907,))))
    assert (row["time"], row["overhead"], row["share"]) == (110.0, 7.0, 7 / 110)
