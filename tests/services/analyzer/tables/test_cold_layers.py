"""Cold start by layer: weights, their loading and copies, first run against warm."""

from typing import Any

import pytest

from services.analyzer.tables.cold_layers import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, span, table_of
from tests.services.analyzer.tables.traced import layer_run, named

KB = 1000


def _opening(run: str, level: int, *spans: list[Any], **more: Any) -> dict[str, Any]:
    told = {"run": run, "level": level, "scenario": "cold", "variant": "cold", "session": run}
    first = [[0, 0, 1, None, 0, 0, 900_000, 900_000, 0]]
    return told | {"queries": first, "spans": list(spans), "layers": LAYERS} | more


LAYERS = [[0, "stem"], [1, "head"]]


def _weights(number: int, action: str, module: str, at: int, ns: int) -> list[Any]:
    return [number, None, 1, f"weights.{action} {module}", at, ns, 0, 0, 0]


def _size(action: str, module: str, size: int) -> list[Any]:
    return [f"weights.{action} {module}", 0, 0, None, size, "By"]


def _first(stem: int, head: int) -> list[list[Any]]:
    return [
        span(90, 3, "stem", stem, of=0, layer=0),
        span(91, 3, "head", head, of=0, layer=1),
    ]


def _loaded(run: str, ns: int, **more: Any) -> dict[str, Any]:
    spans = [_weights(1, "load", "stem", 10, ns), _weights(2, "load", "head", 500, 30)]
    series = [_size("load", "stem", 4 * KB), _size("load", "head", 2 * KB)]
    return _opening(run, 3, *spans, *_first(70_000, 20_000), series=series, **more)


def test_a_layer_has_its_weights_and_first_run_against_warm() -> None:
    warm = layer_run((0, "stem", 7000), (1, "head", 10_000), session="c0", variant="cold")
    table = table_of(ANALYSIS, _loaded("c0", 100), _loaded("c1", 300), warm)
    rows = named(rows_of(table), "layer")
    stem = rows["stem"]
    assert (stem["weight_bytes"], stem["load"], stem["openings"]) == (4 * KB, 200.0, 2)
    assert (stem["place"], stem["copy"]) == (None, None)
    assert (stem["first"], stem["warm"], stem["times"]) == (70_000, 7000, 10.0)
    assert (rows["head"]["load"], rows["head"]["extra"]) == (30.0, 10_000)
    assert table.verdict.startswith("2 layers with 6 kB of weights: 230 ns to load them")
    assert "stem loses the most time in its first run, 63 µs" in table.verdict


def _placed() -> list[list[Any]]:
    moves = [_weights(1, "place", "stem", 1000, 500), _weights(2, "place", "head", 1600, 400)]
    # How many bytes these are is a sample of the same name.
    return [
        *moves,
        *([*_weights(each[0] + 2, "place", "stem", each[4], 0), None, 6] for each in moves),
    ]


def _copy(number: int, launched: int, ns: int) -> list[list[Any]]:
    launch = [2 * number, None, 5, "cudaMemcpyAsync", launched, 5, 0, 0, 0, None, 1, number]
    device = [2 * number + 1, None, 5, "Memcpy HtoD", launched + 9, ns, 7, 0, 0, None, 3, number]
    return [launch, [*device, 0, 7]]


def test_copies_are_of_the_layer_that_was_moved_when_they_began() -> None:
    copies = [*_copy(20, 1010, 200), *_copy(21, 1400, 50), *_copy(22, 1700, 300)]
    later = _copy(23, 2500, 9000)
    series = [_size("place", "stem", 4 * KB), _size("place", "head", 2 * KB)]
    deep = _opening("s", 5, *_placed(), *copies, *later, *_first(1, 1), device="gpu")
    shallow = _opening("l", 3, *_placed(), *_first(8000, 9000), device="gpu", series=series)
    table = table_of(ANALYSIS, shallow, deep)
    rows = named(rows_of(table), "layer")
    assert (rows["stem"]["place"], rows["stem"]["copy"]) == (500.0, 250.0)
    assert (rows["head"]["place"], rows["head"]["copy"]) == (400.0, 300.0)
    assert rows["head"]["first"] == 9000.0
    assert any("weights were not loaded layer by layer" in caveat for caveat in table.caveats)
    alone = table_of(ANALYSIS, shallow).caveats
    assert any("no cold run at level system" in caveat for caveat in alone)


def test_a_framework_that_tells_nothing_is_named() -> None:
    silent = _opening("c", 3, *_first(70, 20), framework="openvino", agent="a1")
    table = table_of(ANALYSIS, silent)
    assert [row["load"] for row in rows_of(table)] == [None, None]
    assert "a1, batch 1: openvino does not report the weights of each layer" in table.caveats
    assert table.verdict == "2 layers with weights of unknown size."


def test_a_verdict_says_nothing_of_loading_that_was_not_seen() -> None:
    moves = [_weights(1, "place", "stem", 10, 500)]
    opening = _opening("c", 3, *moves, *_first(70, 20), series=[_size("place", "stem", 4 * KB)])
    verdict = table_of(ANALYSIS, opening).verdict
    assert verdict == "2 layers with 4 kB of weights: 500 ns to move them."


@pytest.mark.parametrize("level", [0, 2])
def test_openings_that_were_not_looked_into_have_no_rows(level: int) -> None:
    opening = _opening("c", level, span(1, 2, "open", 700, of=0), layers=[])
    table = table_of(ANALYSIS, opening)
    assert (table.rows, "level framework" in table.verdict) == ((), True)


def test_warm_runs_alone_are_no_opening() -> None:
    assert table_of(ANALYSIS, layer_run((0, "stem", 7000))).rows == ()


def test_layers_of_one_name_stay_apart_and_the_first_has_the_weights() -> None:
    twice = [*_first(70_000, 20_000), span(92, 3, "stem", 500, of=0, layer=2)]
    moves = [_weights(1, "load", "stem", 10, 99), _weights(2, "load", "token", 200, 7)]
    told = [_size("load", "stem", 4 * KB), _size("load", "token", 8)]
    opening = _opening("c0", 3, *moves, *twice, series=told)
    opening["layers"] = [*LAYERS, [2, "stem"]]
    rows = rows_of(table_of(ANALYSIS, opening))
    assert [(r["index"], r["layer"], r["weight_bytes"], r["load"], r["first"]) for r in rows] == [
        (0, "stem", 4 * KB, 99.0, 70_000),
        (1, "head", None, None, 20_000),
        (2, "stem", None, None, 500),
        (None, "token", 8, 7.0, None),
    ]


def test_a_layer_that_is_numbered_anew_after_the_first_run_is_still_itself() -> None:
    layers = ((0, "stem"), (1, "stem/conv"), (2, "act"), (3, "head"), (4, "act"))
    warm = layer_run(*((n, name, 1000 + n) for n, name in layers), session="c0", variant="cold")
    named_so: list[list[Any]] = [[0, "stem"], [1, "act"], [2, "head"], [3, "act"]]
    first = [span(90 + n, 3, name, 9000, of=0, layer=n) for n, name in named_so]
    table = table_of(ANALYSIS, _opening("c0", 3, *first, layers=named_so), warm)
    told = [(row["index"], row["layer"], row["warm"]) for row in rows_of(table)]
    assert told == [(0, "stem", 1000), (1, "act", 1002), (2, "head", 1003), (3, "act", 1004)]


def test_modules_without_a_time_in_the_first_run_are_counted() -> None:
    spans = [_weights(1, "load", "stem", 10, 100), span(90, 3, "head", 5, of=0, layer=1)]
    table = table_of(ANALYSIS, _opening("c0", 3, *spans, layers=[[1, "head"]]))
    assert any("1 module with weights of 2 rows" in note for note in table.caveats)
