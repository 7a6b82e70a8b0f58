"""Layer types: layers of a type are summed query by query, then averaged."""

from services.analyzer.frames.layers import COLD_ALONE, NO_LAYERS, NOT_ASKED
from services.analyzer.tables.layer_types import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, span, table_of
from tests.services.analyzer.tables.traced import layer_run

_LAYERS = [[0, "a", "Conv"], [1, "b", "Relu"], [2, "c", "Conv"]]


def _spans(of: int) -> list[list[object]]:
    durations = {"a": 30, "b": 10, "c": 60}
    layers = [
        span(10 * of + n, 3, name, ns, of=of, layer=n)
        for n, (name, ns) in enumerate(durations.items())
    ]
    return [*layers, span(10 * of + 9, 2, "predict", 200, of=of)]


def test_times_of_a_type_are_summed() -> None:
    queries = [query(n, 0, 500) for n in range(2)]
    run = {"run": "r0", "level": 3, "queries": queries, "layers": _LAYERS}
    table = table_of(ANALYSIS, run | {"spans": [*_spans(0), *_spans(1)]})
    conv, relu = rows_of(table)
    assert (conv["type"], conv["layers"], conv["time"]) == ("Conv", 2, 90.0)
    assert (conv["share_of_layers"], conv["share"]) == (0.9, 0.45)
    assert (relu["type"], relu["layers"], relu["queries"]) == ("Relu", 1, 2)
    assert table.verdict.startswith("Conv takes 90.0%")


def test_a_deeper_run_stands_in_only_where_no_run_stops_at_layers() -> None:
    deep = {"run": "deep", "level": 4, "queries": [query(0, 0, 500)], "spans": _spans(0)}
    alone = table_of(ANALYSIS, deep)
    assert {row["run"] for row in rows_of(alone)} == {"deep"}
    assert any("no run stops at level framework" in caveat for caveat in alone.caveats)
    both = table_of(ANALYSIS, deep, deep | {"run": "layers", "level": 3})
    assert {row["run"] for row in rows_of(both)} == {"layers"}
    assert both.caveats == ()


def test_runs_above_layers_have_none() -> None:
    run = {"run": "r0", "level": 2, "queries": [query(0, 0, 500)], "spans": _spans(0)[-1:]}
    table = table_of(ANALYSIS, run)
    assert (table.rows, table.verdict) == ((), NOT_ASKED)


def test_why_there_are_no_layers_is_told() -> None:
    silent = layer_run() | {"level": 5}
    assert table_of(ANALYSIS, silent).verdict == NO_LAYERS
    cold = layer_run((0, "a", 9), variant="cold", scenario="cold")
    assert table_of(ANALYSIS, cold).verdict == COLD_ALONE
