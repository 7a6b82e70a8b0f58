"""Below, at or above the roof: above it by more than its uncertainty is an error in mlscope."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.analysis import Table
from services.analyzer.building.roofs.ceilings import Ceilings, ceilings_of
from services.analyzer.building.roofs.roof_position import position_cells
from services.analyzer.frames.evaluation import RunRow
from services.analyzer.tables.kernel_roofline import ANALYSIS as A9
from services.analyzer.tables.kernels_by_model import ANALYSIS as A15
from services.analyzer.tables.layer_roofline import ANALYSIS as A14
from services.analyzer.tables.roof_distance import ANALYSIS as DISTANCE
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import counter_run, kernel_run, layer_run, model_run

LAYERS = [
    [0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000],
    [1, "copy", "T", "", "", None, None, 1000, 50_000, 50_000],
]


def roof(uncertainty: float | None = None, disturbance: str = "") -> dict[str, Any]:
    """Return the conditions of a roof of 1 TFLOP/s and 100 GB/s."""
    more = {"uncertainty": uncertainty, "disturbance": disturbance}
    return {
        "peak_flops": {"measured": 1e12, **more},
        "memory_bandwidth": {"measured": 1e11, **more},
    }


def layers(conditions: dict[str, Any], dense_ns: int, copy_ns: int = 4000) -> Any:
    """Return a run of layers whose least times are 5,000 and 1,000 ns."""
    times = (0, "dense", dense_ns), (1, "copy", copy_ns)
    return layer_run(*times, layers=LAYERS, conditions=conditions)


def positions(table: Table) -> dict[str, str]:
    return {row["name"]: row["roof_position"] for row in rows_of(table)}


@pytest.mark.parametrize(
    ("uncertainty", "dense_ns", "position"),
    [
        (0.05, 5300, "below"),
        (0.05, 5100, "below"),
        (0.05, 4900, "at"),
        (0.05, 4500, "above"),
        (0.0, 4900, "above"),
        (None, 4900, ""),
        (0.2, 4500, "at"),
    ],
)
def test_a_layer_is_above_the_roof_only_beyond_its_uncertainty(
    uncertainty: float | None, dense_ns: int, position: str
) -> None:
    for analysis in (A14, DISTANCE):
        table = table_of(analysis, layers(roof(uncertainty), dense_ns))
        assert positions(table)["dense"] == position
        is_error = any("an error in mlscope" in caveat for caveat in table.caveats)
        assert is_error == (position == "above")
        assert {row["roof_uncertainty"] for row in rows_of(table)} == {uncertainty}


def test_an_error_names_the_row_by_how_much_and_what_to_distrust() -> None:
    for analysis in (A14, DISTANCE):
        fast_dense = table_of(analysis, layers(roof(0.05), 2500))
        told = (
            "rows is above the roof by more than its uncertainty (dense is 2 times the roof, "
            "which may be 5.0% higher)."
            " Distrust their FLOP: the work may have used a faster algorithm or "
            "arithmetic than counted"
        )
        doubt = "; the roof: the matrix product that measured it may be slower than the work's code"
        assert any(told + doubt in caveat for caveat in fast_dense.caveats)
        published = table_of(analysis, layers(roof(0.0), 2500))
        assert not any(doubt in caveat for caveat in published.caveats)
    assert table_of(A14, layers(roof(0.05), 2500)).verdict.endswith(
        " 1 row is above the roof, an error in mlscope."
    )


def test_bytes_of_shapes_that_caches_served_are_no_error() -> None:
    for analysis in (A14, DISTANCE):
        table = table_of(analysis, layers(roof(0.0), 6000, 100))
        assert positions(table)["copy"] == "cached"
        note = (
            "rows is above the roof of main memory (copy is 10 times the roof): caches served "
            "bytes that the shapes count as moved"
        )
        assert any(note in caveat for caveat in table.caveats)
        assert not any("error" in text for text in (table.verdict, *table.caveats))
    verdict = table_of(A14, layers(roof(0.0), 6000, 100)).verdict
    assert verdict.endswith(" 1 row is above the roof of main memory, thanks to caches.")


def test_bytes_that_were_counted_are_held_to_the_bandwidth_and_shapes_to_the_peak() -> None:
    row = {"time": 100.0, "time_low": 96.0, "time_high": 104.0}
    shares = ((None, "above"), (0.9, "cached"), (1.05, "cached"), (1.2, "above"))
    for of_peak, position in shares:
        cells = position_cells(row, 1.5, 0.05, of_peak=of_peak)
        assert cells["roof_position"] == position
    assert position_cells(row, 0.9, 0.05, of_peak=0.9)["roof_position"] == "below"


def test_a_model_whose_bytes_caches_served_is_no_error() -> None:
    conditions = roof(0.01)
    runs = (model_run(conditions=conditions), layers(conditions, 1000, 100))
    small = [[0, "dense", "T", "", "", None, None, 1000, 900_000, 900_000], LAYERS[1]]
    verdict = table_of(DISTANCE, runs[0], runs[1] | {"layers": small}).verdict
    assert verdict.endswith(
        ", which is faster than main memory moves the bytes: caches served some."
    )


def test_kernels_and_models_are_held_to_it_too() -> None:
    conditions = roof(0.01)
    counted = counter_run((0, "gemm", 3000, 6e6, 500, 500, 1.0), conditions=conditions)
    runs = (model_run(conditions=conditions), kernel_run((0, "gemm", 3000), conditions=conditions))
    kernels, model = (table_of(each, *runs, counted) for each in (A9, A15))
    assert positions(kernels) == {"gemm": "above"}
    assert rows_of(model)[0]["roof_position"] == "above"
    assert any(
        "gemm is 2 times the roof, which may be 1.0% higher" in caveat for caveat in kernels.caveats
    )
    assert any("batch 1 is 2 times the roof" in caveat for caveat in model.caveats)
    for table in (kernels, model):
        assert table.verdict.endswith(" 1 row is above the roof, an error in mlscope.")


def test_a_model_faster_than_its_roof_has_no_loss() -> None:
    run = layers(roof(0.01), 2500, 500)
    without_predict = [row for row in run["spans"] if row[2] != 2]
    table = table_of(DISTANCE, run | {"spans": without_predict})
    assert table.verdict == (
        "All layers of l take 3 µs, 0.500 (no interval) times the roof's minimum time, which is "
        "faster than the roof; the true roof may be higher."
    )
    near = layers(roof(0.1), 4990, 1000)
    table = table_of(DISTANCE, near | {"spans": [row for row in near["spans"] if row[2] != 2]})
    assert "times the roof's minimum time, which is at the roof; " in table.verdict


def test_an_unknown_uncertainty_is_not_none() -> None:
    table = table_of(A14, layers(roof(None), 2500))
    assert positions(table) == {"dense": "", "copy": "below"}
    note = "rows is above the roof, by up to 2 times; its uncertainty or that of their times is"
    assert any(note in caveat for caveat in table.caveats)
    row = {"time": 100.0, "time_low": None, "time_high": None}
    assert position_cells(row, 1.5, 0.1)["roof_position"] == ""
    assert position_cells(row, 1.05, 0.1)["roof_position"] == "at"
    sheet = RunRow(
        1,
        "r",
        conditions={"peak_flops": {"datasheet": 1e12}, "memory_bandwidth": {"datasheet": 1e11}},
    )
    assert ceilings_of(sheet).uncertainty(1.0) == 0.0


def test_a_row_is_at_the_roof_where_its_interval_reaches_it() -> None:
    row = {"time": 100.0, "time_low": 96.0, "time_high": 104.0}
    for of_roof, position in ((0.97, "at"), (0.95, "below"), (1.1, "above")):
        assert position_cells(row, of_roof, 0.05)["roof_position"] == position
    assert position_cells(row, 0.97, 0.05, "another process")["roof_position"] == ""


def test_nothing_is_called_memory_bound_under_a_disturbed_roof() -> None:
    assert Ceilings(1e12, 1e11).is_memory_bound(1.0)
    assert Ceilings(1e12, 1e11, disturbance="heat").is_memory_bound(1.0) is None
    conditions = roof(0.01, "heat")
    conditions["peak_flops"]["disturbance"] = "another process"
    told = ceilings_of(RunRow(1, "r", conditions=conditions)).disturbance
    assert told == "another process (for the peak) and heat (for the bandwidth)"


def test_a_disturbed_roof_is_said_to_be_low_and_makes_no_error() -> None:
    conditions = roof(0.01, "other processes used 40% of the cores")
    table = table_of(A14, layers(conditions, 2500))
    assert positions(table) == {"dense": "", "copy": "below"}
    assert (
        "l: 1 of 2 rows is above the roof, by up to 2 times: the true roof may be higher"
        in table.caveats
    )
    low = "; it may be higher: other processes used 40% of the cores during the measurement"
    assert any(caveat.endswith(low) for caveat in table.caveats)
    assert not any("error of mlscope" in text for text in (table.verdict, *table.caveats))


def test_a_slow_roofs_least_time_may_be_shorter() -> None:
    rows = {row["name"]: row for row in rows_of(table_of(DISTANCE, layers(roof(0.25), 10_000)))}
    dense = rows["dense"]
    assert (dense["times"], dense["times_low"], dense["times_high"]) == (2.0, 2.0, 2.5)
    assert (dense["lost_low"], dense["lost_high"]) == (5000.0, 6000.0)


def test_what_binds_work_near_the_ridge_is_not_told_apart() -> None:
    found = Ceilings(1e12, 1e11, peak_uncertainty=0.1, bandwidth_uncertainty=0.25)
    told = [found.is_memory_bound(each) for each in (7.9, 8.1, 10.0, 10.9, 11.1)]
    assert told == [True, None, None, None, False]


def test_a_verdict_counts_layers_near_the_ridge_apart() -> None:
    near = [[0, "near", "T", "", "", None, None, 1_000_000, 50_000, 50_000]]
    run = layer_run((0, "near", 4000), layers=near, conditions=roof(0.1))
    assert table_of(A14, run).verdict == (
        "The roof's uncertainty leaves open what bounds l (by shapes, not by counters): 1 layer "
        "may be on either side of the ridge."
    )
    both = layer_run((0, "near", 4000), (1, "copy", 4000), layers=[*near, LAYERS[1]])
    verdict = table_of(A14, both | {"conditions": roof(0.1)}).verdict
    assert verdict == (
        "1 of 1 layer is memory-bound (by shapes, not by counters) in l, 100.0% of their time; "
        "1 layer may be on either side of the ridge."
    )


def test_the_uncertainty_is_that_of_the_ceiling_that_bounds() -> None:
    row = RunRow(
        1,
        "r",
        conditions={
            "peak_flops": {"measured": 1e12, "uncertainty": 0.02},
            "memory_bandwidth": {"measured": 1e11, "uncertainty": 0.1},
        },
    )
    found = ceilings_of(row)
    assert [found.uncertainty(each) for each in (1.0, 100.0, None)] == [0.1, 0.02, 0.02]
    assert "1 TFLOP/s (up to 2.0% higher) and 100 GB/s (up to 10.0% higher)" in found.description


@given(st.floats(0.0, 10.0), st.floats(0.0, 0.9), st.floats(1.0, 3.0))
def test_the_wider_an_interval_the_less_is_above(
    of_roof: float, uncertainty: float, slower: float
) -> None:
    exact = {"time": 100.0, "time_low": 100.0, "time_high": 100.0}
    wide = {"time": 100.0, "time_low": 100.0, "time_high": 100.0 * slower}
    order = ["below", "at", "above"]
    at_exact, at_wide, at_sure = (
        order.index(position_cells(times, of_roof, share)["roof_position"])
        for times, share in ((exact, uncertainty), (wide, uncertainty), (exact, 0.0))
    )
    assert at_wide <= at_exact
    assert (at_exact == 2) <= (at_sure == 2)
    assert (at_exact == 0) == (of_roof < 1.0)
