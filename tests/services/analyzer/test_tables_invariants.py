"""What holds of every table whatever the rows: shares, order, counts; and layers stay apart."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.analysis import Table
from services.analyzer.analysis import analyze
from services.analyzer.building.table import trace_warnings
from services.analyzer.frames.evaluation import probability_of
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import rows_of
from tests.thoroughness import examples

PREDICT_NS = 1_000_000
_DURATIONS = st.lists(st.integers(0, 1000), min_size=1, max_size=8)
_QUERY = st.tuples(
    st.integers(0, 3),
    st.integers(0, 4),
    st.none() | st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(-10, 10**9),
    st.none() | st.integers(0, 10**9),
    st.integers(0, 2),
)


def _tables(value: dict[str, Any]) -> dict[str, Table]:
    return {table.name: table for table in analyze(frames_in(value)).tables}


def _layered(durations: list[int], queries: int = 3, **more: Any) -> dict[str, Any]:
    """Return one run whose predict has layers one after the other, all of the same name."""
    spans: list[list[Any]] = []
    for query in range(queries):
        begin = query * 2 * PREDICT_NS
        spans.append([len(spans), None, 1, "query", begin, 2 * PREDICT_NS, 0, query, 0])
        spans.append([len(spans), None, 2, "predict", begin, PREDICT_NS, 0, query, 0])
        at = begin
        for index, ns in enumerate(durations):
            spans.append([len(spans), None, 3, "node", at, ns, 0, query, 0, index])
            at += ns
    rows = [
        [q, 0, 1, None, q * 2 * PREDICT_NS, 0, (q + 1) * 2 * PREDICT_NS, 2 * PREDICT_NS, 0]
        for q in range(queries)
    ]
    device_attributes = [[index, "node", f"T{index % 2}"] for index in range(len(durations))]
    run = {"run": "r0", "level": 3, "queries": rows, "spans": spans, "layers": device_attributes}
    return {"runs": [run | more]}


@settings(deadline=None, max_examples=examples(25))
@given(durations=_DURATIONS)
def test_layers_of_one_name_stay_apart_and_fill_no_more_than_predict(durations: list[int]) -> None:
    tables = _tables(_layered(durations))
    layers, types = rows_of(tables["layers"]), rows_of(tables["layer_types"])
    assert [row["time"] for row in layers] == durations
    assert sum(row["share"] for row in layers) <= 1.0
    assert sum(row["layers"] for row in types) == len(durations)
    assert sum(row["time"] for row in types) == sum(durations)
    if any(durations):
        assert abs(sum(row["share_of_layers"] for row in types) - 1.0) < 1e-9


@settings(deadline=None, max_examples=examples(25))
@given(durations=_DURATIONS)
def test_parts_and_what_is_outside_them_make_the_whole(durations: list[int]) -> None:
    rows = {row["part"]: row["median"] for row in rows_of(_tables(_layered(durations))["levels"])}
    whole = rows["predict, layers traced"]
    assert rows["layers"] + rows["outside layers"] == whole == PREDICT_NS


@settings(deadline=None, max_examples=examples(40))
@given(given_queries=st.lists(_QUERY, max_size=12), level=st.integers(0, 7))
def test_no_rows_break_a_table(given_queries: list[Any], level: int) -> None:
    queries = [
        [number, block, size, due, issued, issued, ended, service, status]
        for number, (block, size, due, issued, ended, service, status) in enumerate(given_queries)
    ]
    tables = _tables({"runs": [{"run": "r0", "level": level, "queries": queries}]})
    (row,) = rows_of(tables["latency"])
    assert row["count"] + row["failed"] == len(queries)
    if row["count"]:
        percentiles = [row[name] for name in ("p90", "p99") if row["count"] > 1]
        rising = [row["min"], row["median"], *percentiles, row["max"]]
        assert rising == sorted(rising)
        assert (row["p90"] is None) == (row["count"] == 1)


def test_every_agent_has_a_row_of_its_own() -> None:
    runs = [
        _layered([100 * n], agent=f"a{n}", run=f"r{n}", session="s0")["runs"][0] for n in (1, 2)
    ]
    tables = _tables({"runs": runs})
    assert [row["time"] for row in rows_of(tables["layers"])] == [100, 200]
    levels = rows_of(tables["levels"])
    assert {row["agent"] for row in levels} == {"a1", "a2"}
    assert not [row for row in levels if row["kind"] == "difference"]


def test_rates_at_one_level_are_not_taken_from_another() -> None:
    loads = [{"rate_hz": 10}, {"rate_hz": 99}]
    runs = [
        _layered([5], run=f"r{n}", session="s0", parameters=each, level=2 + n)["runs"][0]
        for n, each in enumerate(loads)
    ]
    levels = rows_of(_tables({"runs": runs})["levels"])
    assert not [row for row in levels if row["kind"] == "difference"]


def test_queries_out_of_order_are_paired_by_number() -> None:
    value = _layered([100])
    spans = value["runs"][0]["spans"]
    slow = next(span for span in spans if span[3] == "predict" and span[7] == 2)
    slow[4], slow[5] = -50, 7 * PREDICT_NS
    spans.sort(key=lambda span: span[4])
    frames = frames_in(value)
    assert frames.measured[0].operator_ns("predict").tolist()[-1] == 7 * PREDICT_NS


def test_caveats_name_bad_ends_lost_batches_and_shallow_looks() -> None:
    value = _layered([1], end="failed", dropped_batches=2, level_note="no deeper")
    notes = trace_warnings(frames_in(value))
    assert notes == [
        "r0 ended failed: its figures cover only the stored rows",
        "r0: 2 batches were lost at the agent",
        "r0: no deeper",
    ]
    assert set(notes) <= set(_tables(value)["layers"].caveats)
    assert set(notes[:2]) <= set(_tables(value)["latency"].caveats)


def test_every_table_of_times_says_after_how_many_queries_a_run_was_cut_off() -> None:
    value = _layered([1], end="cancelled", interrupted="cancelled: enough")
    count = len(value["runs"][0]["queries"])
    note = f"r0 was cancelled after {count} queries: its figures cover only these"
    assert trace_warnings(frames_in(value)) == [note]
    tables = _tables(value)
    assert all(note in tables[name].caveats for name in ("latency", "throughput", "layers"))
    assert f"r0: cancelled after {count} queries: enough" in tables["conditions"].caveats


def test_how_a_replay_ended_matters_to_tables_of_counters_alone() -> None:
    value = _layered([1])
    replay = _layered([1], run="h", session="c", level=6, variant="counters", end="incomplete")
    tables = _tables({"runs": [*value["runs"], *replay["runs"]]})
    ended = "h ended incomplete: its figures cover only the stored rows"
    told = {name for name, table in tables.items() if ended in table.caveats}
    assert {"kernels", "roof_distance", "operators", "latency"} <= told
    assert told.isdisjoint({"layers", "layer_latency", "levels", "stages", "static_work"})


def _full(**counters: Any) -> list[str]:
    """Return the notes of a run that was asked for all, beside a replay that counts."""
    value = _layered([1], level=5, level_asked=7, level_note="no deeper")
    counted = _layered([1], run="h", session="c", level=6, level_note="no layers", **counters)
    return trace_warnings(frames_in({"runs": [*value["runs"], *counted["runs"]]}))


def test_all_that_was_asked_is_there_where_another_process_counted() -> None:
    assert _full(variant="counters") == []
    assert "r0: no deeper" in _full(variant="counters", end="failed")
    assert _full(variant="serialised") == ["r0: no deeper", "h: no layers"]


def test_an_attempt_that_does_not_count_enters_no_figure() -> None:
    value = _layered([1])
    lost = {"run": "r0", "attempt": 1, "outcome": "interrupted", "interrupted": "agent lost"}
    with_lost = _tables(value | {"others": [lost]})
    without = _tables(value)
    assert [row["cause"] for row in rows_of(with_lost.pop("attempts"))] == ["agent lost"]
    without.pop("attempts")
    assert with_lost == without


def test_odd_probabilities_are_none() -> None:
    odd: list[Any] = ["0.9", None, [1], float("nan"), {}]
    assert [probability_of({"probability": each}) for each in odd] == [None] * 5
    outputs = [[0, 0, [{"label": "a", "probability": "high"}, {"label": "b", "probability": 1}]]]
    table = _tables({"runs": [{"run": "r0", "outputs": outputs}]})["outputs"]
    told = [(row["label"], row["probability"]) for row in rows_of(table)]
    assert told == [("b", 1.0), ("a", None)]
