"""Layers: in the order they first began, one row an index and name."""

from typing import Any

from services.analyzer.tables.layers import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, span, table_of
from tests.services.analyzer.tables.traced import layer_run, named, queries


def test_layers_come_in_execution_order_with_their_share_of_predict() -> None:
    spans = [
        span(0, 2, "predict", 100),
        span(2, 3, "late", 20, layer=0),
        span(1, 3, "early", 40, layer=1),
    ]
    run = {"run": "r0", "level": 3, "queries": [query(0, 0, 500)], "spans": spans}
    early, late = rows_of(table_of(ANALYSIS, run | {"layers": [[1, "early", "Conv", "1x8"]]}))
    assert (early["name"], early["index"], early["node"]) == ("early", 0, 1)
    assert (early["type"], early["shape"], early["share"]) == ("Conv", "1x8", 0.4)
    assert (late["name"], late["index"], late["type"]) == ("late", 1, "")


def test_spans_of_one_layer_in_a_query_are_summed() -> None:
    spans = [span(n, 3, "node", 10 + n, layer=0) for n in range(3)]
    run = {"run": "r0", "level": 3, "queries": [query(0, 0, 500)], "spans": spans}
    (row,) = rows_of(table_of(ANALYSIS, run))
    assert (row["spans"], row["queries"], row["time"]) == (3, 1, 33.0)


def test_layers_of_failed_queries_do_not_count() -> None:
    failed = query(0, 0, 500)
    failed[-1] = 1
    run = {"run": "r0", "level": 3, "queries": [failed], "spans": [span(0, 3, "n", 5, layer=0)]}
    assert table_of(ANALYSIS, run).rows == ()


def test_a_query_in_which_a_layer_did_not_run_took_none_of_it() -> None:
    run = layer_run((0, "a", 900), (1, "b", 300))
    run["spans"] = [each for each in run["spans"] if each[3] != "b" or each[7] == 0]
    rows = named(rows_of(table_of(ANALYSIS, run)))
    assert (rows["b"]["time"], rows["b"]["queries"]) == (0.0, 3)
    assert (rows["a"]["time"], rows["a"]["queries"]) == (900.0, 3)


def _interrupted(count: int) -> dict[str, Any]:
    """Return a run of `count` layers of 100 ns, in each query another one delayed by 9000 ns."""
    spans = [
        span(count * n + place, 3, f"l{place}", 9100 if n == place else 100, of=n, layer=place)
        for n in range(count)
        for place in range(count)
    ]
    return {"run": "l", "level": 3, "queries": queries(count), "spans": spans}


def test_delays_that_are_trimmed_off_every_layer_are_told() -> None:
    notes = [n for n in table_of(ANALYSIS, _interrupted(9)).caveats if "trimmed means" in n]
    assert len(notes) == 1
    assert "add up to 900 ns, but all layers of a query take 9.9 µs" in notes[0]


def test_layers_that_add_up_need_no_word() -> None:
    table = table_of(ANALYSIS, layer_run((0, "a", 900), (1, "b", 300)))
    assert not [note for note in table.caveats if "trimmed means" in note]


def test_of_layers_of_one_name_the_slowest_is_told_by_its_place() -> None:
    table = table_of(ANALYSIS, layer_run((0, "tanh", 10), (1, "tanh", 30), (2, "add", 20)))
    assert "is tanh (layer 1" in table.verdict
    assert "is a (T0):" in table_of(ANALYSIS, layer_run((0, "a", 9))).verdict
