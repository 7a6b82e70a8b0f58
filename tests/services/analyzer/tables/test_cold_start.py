"""Cold start: measured where a run did, noted where none did, never mixed with warm figures."""

from typing import Any

from services.analyzer.tables.cold_start import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, span, table_of
from tests.services.analyzer.tables.traced import (
    copy,
    kernel_run,
    layer_run,
    model_run,
    named,
    work_row,
)


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


def _openings(*open_ns: int) -> list[dict[str, Any]]:
    """Return a cold run for each time to open; each first run takes 50 µs."""
    return [
        _cold(
            run=f"c{number}",
            session=f"c{number}",
            spans=[span(0, 2, "open", ns, of=0), span(1, 2, "predict", 50_000, of=0)],
        )
        for number, ns in enumerate(open_ns)
    ]


def test_a_result_of_few_openings_says_how_well_it_is_known() -> None:
    noisy = table_of(ANALYSIS, *_openings(600_000, 700_000, 800_000))
    assert noisy.verdict.startswith("Opening takes 700 µs (452 … 948), the first run")
    (note,) = (caveat for caveat in noisy.caveats if "the goal is within 5%" in caveat)
    assert note.startswith("c0: its time to open is known to within 35% (95% interval), with 3 ")
    steady = table_of(ANALYSIS, *_openings(700_000, 701_000, 700_000))
    assert not any("the goal is within" in caveat for caveat in steady.caveats)


def test_one_opening_has_no_interval_and_says_so() -> None:
    notes = [
        caveat for caveat in table_of(ANALYSIS, *_openings(700_000)).caveats if "goal" in caveat
    ]
    assert [note.partition(";")[0] for note in notes] == [
        "c0: its time to open has no interval, with 1 opening",
        "c0: its first run has no interval, with 1 opening",
    ]
    noted = {"load_ns": 9000, "first_run_ns": 30_000}
    assert not any(
        "goal" in note for note in table_of(ANALYSIS, model_run(conditions=noted)).caveats
    )


def test_copies_of_a_cold_start_stand_beside_those_of_warm_queries() -> None:
    cold = _cold(level=5, kernels=[work_row(work, 0) for work in (copy(0, 900), (0, "k", 50))])
    warm = kernel_run(copy(0, 300), (0, "k", 50))
    rows = named(rows_of(table_of(ANALYSIS, cold, warm)), "part")
    # One opening copies for 900 ns; of the three warm queries each copies for 300 ns.
    copies = rows["copies"]
    assert (copies["cold"], copies["warm"], copies["times"]) == (900, 300, 3.0)
    assert (copies["run"], copies["count"], copies["layer"]) == ("c", 1, "")
    untraced = rows_of(table_of(ANALYSIS, model_run(), _cold()))
    assert "copies" not in named(untraced, "part")


def test_a_time_that_was_not_noted_is_no_row() -> None:
    noted = {"load_ns": 0, "first_run_ns": 30_000}
    table = table_of(ANALYSIS, model_run(conditions=noted))
    assert [row["part"] for row in rows_of(table)] == ["predict"]
    assert table.verdict == "The first run 30 µs, measured once, 3 times a warm one (m)."
