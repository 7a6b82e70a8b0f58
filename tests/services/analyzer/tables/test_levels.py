"""Time by level: each from where it is the deepest; what looking costs is called a difference."""

from typing import Any

from services.analyzer.tables.levels import ANALYSIS
from tests.services.analyzer.tables.reading import query, rows_of, span, table_of


def _run(run: str, level: int, ns: int, *spans: list[Any]) -> dict[str, Any]:
    return {"run": run, "level": level, "queries": [query(0, 0, ns)], "spans": list(spans)}


def _parts(*runs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["part"]: row for row in rows_of(table_of(ANALYSIS, *runs))}


def test_level_model_costs_what_it_takes_over_none() -> None:
    predict = span(2, 2, "predict", 80)
    parts = _parts(_run("n", 0, 100), _run("m", 2, 107, span(1, 1, "query", 107), predict))
    cost = parts["tracing model over none, on query"]
    assert (cost["run"], cost["median"], cost["kind"]) == ("m - n", 7.0, "difference")
    assert parts["query"]["run"] == "n"


def test_what_no_operator_had_is_outside_operators() -> None:
    parts = _parts(_run("r0", 2, 100, span(0, 2, "decode", 30), span(1, 2, "predict", 50)))
    assert parts["operators"]["median"] == 80.0
    assert (parts["predict"]["median"], parts["predict"]["share"]) == (50.0, 0.5)
    assert parts["outside operators"]["median"] == 20.0


def test_the_cost_of_looking_is_a_difference_of_two_runs() -> None:
    parts = _parts(_run("r0", 0, 100), _run("r1", 2, 130, span(0, 2, "predict", 90)))
    cost = parts["tracing model over none, on query"]
    assert (cost["kind"], cost["median"], cost["run"]) == ("difference", 30.0, "r1 - r0")
    assert parts["query"]["median"] == 100.0


def _blocks(run: str, level: int, *medians: int, **row: Any) -> dict[str, Any]:
    """Return a run of three queries a block, around these medians."""
    queries = [
        query(3 * block + place, 0, median + add, block=block)
        for block, median in enumerate(medians)
        for place, add in enumerate((-5, 0, 5))
    ]
    return {"run": run, "level": level, "queries": queries, **row}


def test_an_overhead_is_taken_block_by_block() -> None:
    # The machine slowed down from block to block; in each the deeper run takes 10 to 12 more.
    shallow = _blocks("m", 2, 100, 200, 400)
    cost = _parts(shallow, _blocks("l", 3, 110, 212, 411))["tracing framework over model, on query"]
    assert (cost["median"], cost["blocks"]) == (11.0, 3)
    # t(0.975, 2) = 4.303, s = 1: 11 -+ 4.303 / sqrt(3)
    assert (round(cost["median_low"], 3), round(cost["median_high"], 3)) == (8.516, 13.484)
    assert (cost["valid"], cost["share"]) == (True, 11.0 / 200)


def test_an_overhead_within_its_interval_is_not_seen() -> None:
    runs = [
        _blocks(name, level, *medians)
        | {
            "spans": [
                span(9 * level + n, 2, "predict", ns, of=3 * n) for n, ns in enumerate(medians)
            ]
        }
        for name, level, medians in (("m", 2, (1000, 1001, 1002)), ("f", 3, (1000, 1040, 960)))
    ]
    for run in runs:
        for block, spans in enumerate(run["spans"]):
            spans[8] = block
    table = table_of(ANALYSIS, *runs)
    (row,) = [row for row in rows_of(table) if row["part"].endswith("over model, on predict")]
    assert row["median"] < 0
    assert (row["result"], row["share"]) == ("none seen (-102 … +99.6 ns)", None)
    assert table.verdict.endswith(
        "Overhead of tracing framework on predict: none seen (-102 … +99.6 ns)."
    )


def test_every_level_costs_on_every_level_above() -> None:
    runs = [_blocks(f"r{level}", level, 100 + level, 100 + level) for level in (2, 3, 5)]
    names = {part.partition(",")[0] for part in _parts(*runs) if part.startswith("tracing")}
    assert names == {
        "tracing framework over model", "tracing system over model", "tracing system over framework"
    }  # fmt: skip


def test_a_deeper_run_that_is_faster_beyond_doubt_does_not_hold() -> None:
    table = table_of(ANALYSIS, _blocks("m", 2, 100, 101, 102), _blocks("l", 3, 80, 82, 81))
    (cost,) = (row for row in rows_of(table) if row["kind"] == "difference")
    assert (cost["valid"], "levels disagree" in cost["doubt"]) == (False, True)
    assert any("does not hold" in caveat for caveat in table.caveats)


def test_dropped_records_make_a_difference_invalid() -> None:
    deep = _blocks("s", 5, 120, 121, dropped_records=3)
    parts = _parts(_blocks("m", 2, 100, 101), deep)
    cost = parts["tracing system over model, on query"]
    assert (cost["valid"], cost["doubt"]) == (False, "records were dropped in s")
    assert parts["query"]["valid"]


def test_counters_and_cold_starts_are_of_no_level() -> None:
    cold = _blocks("c", 2, 999, variant="cold")
    counted = _blocks("h", 6, 999, variant="counters")
    assert {
        row["run"] for row in rows_of(table_of(ANALYSIS, _blocks("m", 2, 100), cold, counted))
    } == {"m"}


def test_overlapping_operators_leave_a_negative_rest_that_is_told() -> None:
    table = table_of(
        ANALYSIS, _run("r0", 2, 100, span(0, 2, "decode", 80), span(1, 2, "predict", 70))
    )
    rest = {row["part"]: row["median"] for row in rows_of(table)}["outside operators"]
    assert rest == -50.0
    assert any("outside operators is below 0" in caveat for caveat in table.caveats)


def _layered(run: str, *blocks: tuple[int, int, int], level: int = 3, **row: Any) -> dict[str, Any]:
    """Return a run of a query a block: what query, predict and its one layer took."""
    queries = [query(n, 0, whole, block=n) for n, (whole, _, _) in enumerate(blocks)]
    spans = []
    for n, (_, predict, layer) in enumerate(blocks):
        spans.append([10 * n, None, 2, "predict", 0, predict, 0, n, n])
        spans.append([10 * n + 1, None, 3, "conv", 0, layer, 0, n, n, 0])
    return {"run": run, "level": level, "queries": queries, "spans": spans, **row}


def test_layers_that_take_more_than_their_predict_do_not_hold() -> None:
    table = table_of(ANALYSIS, _layered("l", (100, 80, 95), (100, 81, 95), (100, 80, 96)))
    parts = {row["part"]: row for row in rows_of(table)}
    assert "layers sum up to more than the predict" in parts["layers"]["doubt"]
    assert not parts["layers"]["valid"]
    assert not parts["outside layers"]["valid"]
    assert parts["predict, layers traced"]["valid"]
    assert any("l, layers: does not hold" in caveat for caveat in table.caveats)


def test_layers_that_may_take_more_within_the_doubt_hold() -> None:
    parts = _parts(_layered("l", (100, 80, 95), (100, 80, 60), (100, 80, 82)))
    assert parts["outside layers"]["median"] == -2.0
    assert (parts["layers"]["valid"], parts["layers"]["doubt"]) == (True, "")


def test_layers_with_dropped_records_do_not_hold() -> None:
    parts = _parts(_layered("l", (100, 80, 60), (100, 80, 60), dropped_records=1))
    assert (parts["layers"]["valid"], parts["predict, layers traced"]["valid"]) == (False, True)


def test_a_part_that_costs_more_than_its_whole_does_not_hold() -> None:
    shallow = _layered("l", (100, 80, 50), (100, 80, 50), (100, 80, 50))
    deep = _layered("s", (110, 90, 75), (111, 91, 75), (110, 90, 76), level=5)
    parts = _parts(shallow, deep)
    cost = parts["tracing system over framework, on layers"]
    assert "deeper tracing adds more to the part than to the whole" in cost["doubt"]
    assert not cost["valid"]
    assert parts["tracing system over framework, on predict"]["valid"]


def _side_by_side(**row: Any) -> dict[str, Any]:
    spans = [
        [1, None, 2, "predict", 0, 100, 0, 0, 0],
        [2, None, 3, "a", 0, 90, 7, 0, 0, 0],
        [3, None, 3, "b", 5, 90, 8, 0, 0, 1],
    ]
    return {"run": "l", "level": 3, "queries": [query(0, 0, 120)], "spans": spans, **row}


def test_layers_side_by_side_are_ambiguous_not_wrong() -> None:
    table = table_of(ANALYSIS, _side_by_side())
    (layers,) = (row for row in rows_of(table) if row["part"] == "layers")
    assert (layers["median"], layers["valid"]) == (180.0, True)
    assert any("ambiguous: request serialised runs" in caveat for caveat in table.caveats)


def test_runs_that_were_serialised_too_tell_what_is_ambiguous() -> None:
    alone = _layered("x", (200, 180, 90), session="b1-serialised", variant="serialised")
    caveats = table_of(ANALYSIS, _side_by_side(), alone).caveats
    assert any("see the serialised runs" in caveat for caveat in caveats)


def test_layers_one_after_the_other_are_not_ambiguous() -> None:
    hopping = _side_by_side()
    hopping["spans"][2][4] = 90
    assert not any("ambiguous" in caveat for caveat in table_of(ANALYSIS, hopping).caveats)
    inner = _side_by_side()
    inner["spans"][2][6] = 7
    assert not any("ambiguous" in caveat for caveat in table_of(ANALYSIS, inner).caveats)


def _serial(run: str, level: int, *spans: list[Any]) -> dict[str, Any]:
    return _run(run, level, 900, *spans) | {"session": "b1-serialised", "variant": "serialised"}


def test_a_serialised_run_changes_nothing_of_the_plain_ones() -> None:
    plain = [_run("m", 2, 100, span(0, 2, "predict", 50)), _run("s", 5, 130)]
    serial = _serial("z", 5, span(0, 2, "predict", 800), span(1, 3, "layer", 700, layer=0))
    alone, both = table_of(ANALYSIS, *plain), table_of(ANALYSIS, serial, *plain)
    rows = rows_of(both)
    assert [row for row in rows if not row["variant"]] == rows_of(alone)
    (row,) = [row for row in rows if row["variant"]]
    assert (row["part"], row["run"], row["level"]) == ("query", "z", "system")
    assert both.verdict == alone.verdict


def test_the_verdict_is_of_plain_runs_and_says_where_there_is_none() -> None:
    predict = span(0, 2, "predict", 50)
    serial = _serial("z", 2, predict)
    table = table_of(ANALYSIS, serial, _run("m", 2, 100, predict))
    assert table.verdict.endswith("50.0% of it, in m (online, batch 1).")
    assert table_of(ANALYSIS, serial).verdict.endswith("in z (online, batch 1, serialised).")


def test_predict_of_calls_that_overlapped_is_said_to_wait_for_another() -> None:
    run = _run("m", 2, 100, span(1, 1, "query", 100), span(2, 2, "predict", 50))
    table = table_of(ANALYSIS, run | {"conditions": {"calls_in_flight": 2}})
    assert table.verdict.endswith("in m (online, batch 1, behind one other call).")
    assert any(note.startswith("m: 2 calls were under way") for note in table.caveats)
