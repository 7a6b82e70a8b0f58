"""Distance from the roof: the least time of the work, by what bounds it."""

import pytest

from services.analyzer.tables.roof_distance import ANALYSIS, MODEL
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import kernel_run, layer_run, named

ROOF = {"peak_flops": {"measured": 1e12}, "memory_bandwidth": {"measured": 1e11}}


def test_each_layer_is_bound_by_what_takes_longer() -> None:
    natures = [
        [0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000],
        [1, "copy", "T", "", "", None, None, 1000, 50_000, 50_000],
    ]
    run = layer_run((0, "dense", 10_000), (1, "copy", 4000), layers=natures, conditions=ROOF)
    rows = named(rows_of(table_of(ANALYSIS, run)))
    assert (rows["dense"]["least_time"], rows["copy"]["least_time"]) == (5000.0, 1000.0)
    assert (rows["dense"]["times"], rows["copy"]["lost"]) == (2.0, 3000.0)
    assert rows[MODEL]["least_time"] == 6000.0
    # Predict takes 10 us, whatever its layers add up to.
    assert rows[MODEL]["time"] == 10_000.0
    assert rows[MODEL]["times"] == pytest.approx(10 / 6)


def test_counters_go_before_shapes() -> None:
    natures = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    layers = layer_run((0, "dense", 10_000), layers=natures, conditions=ROOF)
    kernels = kernel_run((0, "k", 8000, 6e6, 500, 500, 1.0), conditions=ROOF)
    rows = named(rows_of(table_of(ANALYSIS, layers, kernels)))
    assert (rows["dense"]["source"], rows["dense"]["time"]) == ("counters", 8000.0)
    assert rows["dense"]["least_time"] == 6000.0


def test_an_unknown_roof_is_no_roof_of_zero() -> None:
    natures = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    table = table_of(ANALYSIS, layer_run((0, "dense", 10), layers=natures, conditions={}))
    assert table.rows == ()
    assert table.verdict.startswith("The roof of no device is known")
