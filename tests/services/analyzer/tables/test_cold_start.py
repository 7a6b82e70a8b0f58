"""Cold start: measured where a run did, noted where none did, never mixed with warm figures."""

from typing import Any

from services.analyzer.tables.cold_start import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, span, table_of
from tests.services.analyzer.tables.traced import layer_run, model_run, named


def _cold(**more: Any) -> dict[str, Any]:
    spans = [
        span(0, 2, "open", 700_000, of=0),
        span(1, 2, "predict", 50_000, of=0),
        span(2, 3, "conv", 30_000, of=0, layer=0),
    ]
    told = {"run": "c", "level": 3, "scenario": "cold", "session": "cold", "layers": [[0, "conv"]]}
    return told | {"queries": [[0, 0, 1, None, 0, 0, 800_000, 800_000, 0]], "spans": spans} | more


def test_a_measured_cold_run_is_set_beside_the_warm_ones() -> None:
    runs = [model_run(), layer_run((0, "conv", 1000)), _cold()]
    table = table_of(ANALYSIS, *runs)
    rows = named(rows_of(table), "part")
    assert (rows["open"]["cold"], rows["open"]["warm"]) == (700_000, None)
    assert (rows["predict"]["times"], rows["predict"]["extra"]) == (5.0, 40_000)
    assert (rows["layer"]["layer"], rows["layer"]["times"]) == ("conv", 30.0)
    assert table.verdict.startswith(
        "Opening takes 700 µs, the first run 50 µs, measured once, 5 times"
    )


def test_another_agents_warm_run_is_no_comparison() -> None:
    rows = rows_of(table_of(ANALYSIS, model_run(agent="other"), _cold(agent="mine")))
    assert all(row["warm"] is None for row in rows if row["agent"] == "mine")


def test_without_a_cold_run_what_was_noted_stands() -> None:
    noted = {"load_ns": 9000, "first_run_ns": 30_000}
    rows = named(rows_of(table_of(ANALYSIS, model_run(conditions=noted))), "part")
    assert (rows["open"]["cold"], rows["predict"]["times"]) == (9000.0, 3.0)
    assert table_of(ANALYSIS, model_run(conditions={})).rows == ()


def test_openings_are_averaged_and_levels_matched() -> None:
    def of(run: str, level: int, ns: int) -> dict[str, Any]:
        spans = [span(1, 2, "predict", ns, of=0)]
        if level == 3:
            spans.append(span(2, 3, "conv", ns - 10_000, of=0, layer=0))
        return _cold(run=run, level=level, session=run, spans=spans, variant="cold")

    cold = [of("m1", 2, 40_000), of("l1", 3, 80_000), of("m2", 2, 60_000), of("l2", 3, 90_000)]
    warm = [
        model_run(session="m1", variant="cold"),
        layer_run((0, "conv", 1000), session="l1", variant="cold"),
    ]
    rows = rows_of(table_of(ANALYSIS, *cold, *warm))
    told = [(row["part"], row["count"], row["cold"], row["warm"]) for row in rows]
    assert told == [("predict", 2, 50_000, 10_000), ("layer", 2, 75_000, 1000)]
