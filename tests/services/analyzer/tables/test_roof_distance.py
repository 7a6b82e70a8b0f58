"""Distance from the roof: the least time of the work, by what bounds it."""

import pytest

from services.analyzer.tables.roof_distance import ANALYSIS, MODEL
from tests.services.analyzer.tables.reading import rows_of, span, table_of
from tests.services.analyzer.tables.traced import (
    counter_run,
    kernel_run,
    layer_run,
    model_run,
    named,
    predicts,
)

ROOF = {"peak_flops": {"measured": 1e12}, "memory_bandwidth": {"measured": 1e11}}


def test_each_layer_is_bound_by_what_takes_longer() -> None:
    device_attributes = [
        [0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000],
        [1, "copy", "T", "", "", None, None, 1000, 50_000, 50_000],
    ]
    run = layer_run(
        (0, "dense", 10_000), (1, "copy", 4000), layers=device_attributes, conditions=ROOF
    )
    rows = named(rows_of(table_of(ANALYSIS, run)))
    assert (rows["dense"]["least_time"], rows["copy"]["least_time"]) == (5000.0, 1000.0)
    assert (rows["dense"]["times"], rows["copy"]["lost"]) == (2.0, 3000.0)
    assert rows[MODEL]["least_time"] == 6000.0
    # Predict takes 10 us, whatever its layers add up to.
    assert rows[MODEL]["time"] == 10_000.0
    assert rows[MODEL]["times"] == pytest.approx(10 / 6)


def test_the_models_time_is_of_the_run_that_looks_no_deeper() -> None:
    device_attributes = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    layers = layer_run((0, "dense", 10_000), layers=device_attributes, conditions=ROOF)
    quick = [span(1000 + n, 2, "predict", 8000, of=n) for n in range(3)]
    rows = named(rows_of(table_of(ANALYSIS, model_run(spans=quick), layers)))
    assert (rows[MODEL]["run"], rows["dense"]["run"]) == ("m", "l")
    assert (rows[MODEL]["time"], rows[MODEL]["queries"]) == (8000.0, 3)
    assert rows[MODEL]["throughput"] == pytest.approx(5_000_000 / 8e-6)
    assert rows[MODEL]["of_peak"] == pytest.approx(0.625)


def test_without_predict_it_is_all_layers_that_take_a_time() -> None:
    device_attributes = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    layers = layer_run((0, "dense", 6000), layers=device_attributes, conditions=ROOF)
    spans = [each for each in layers["spans"] if each[2] != 2]
    assert table_of(ANALYSIS, layers | {"spans": spans}).verdict.startswith("All layers of l take")
    assert table_of(ANALYSIS, layers).verdict.startswith("Predict of l takes")


def test_the_verdict_is_of_the_load_that_has_the_rows() -> None:
    of_unknown_work = layer_run((0, "odd", 1000), conditions=ROOF)
    device_attributes = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    layers = layer_run((0, "dense", 6000), layers=device_attributes, conditions=ROOF)
    without_predict = [row for row in layers["spans"] if row[2] != 2]
    layers |= {"run": "later", "batch_size": 2, "spans": without_predict}
    verdict = table_of(ANALYSIS, of_unknown_work, layers).verdict
    assert verdict.startswith("All layers of later take")


def test_a_replays_predict_is_no_latency() -> None:
    kernel = (0, "k", 3000, 5_000_000.0, 1000, 1000, 50.0)
    table = table_of(ANALYSIS, counter_run(kernel, spans=predicts(1), conditions=ROOF))
    rows = named(rows_of(table))
    assert rows[MODEL]["time"] == 3000.0
    assert table.verdict.startswith(
        "All layers of h take 3 µs, 0.600 (no interval) times the roof's minimum time"
    )
    assert "h: a replay for counters: its kernel times are not latencies" in table.caveats


def test_layers_without_flops_are_told() -> None:
    device_attributes = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    layers = layer_run(
        (0, "dense", 3000), (1, "odd", 1000), layers=device_attributes, conditions=ROOF
    )
    table = table_of(ANALYSIS, layers)
    told = "1 of 2 layers, 25.0% of their time, has unknown work (odd)"
    assert f"l: {told}: it is not in the model's least time" in table.caveats
    assert (
        "l: the roof is 1 TFLOP/s (uncertainty unknown) and 100 GB/s (uncertainty unknown)"
        in table.caveats
    )


def test_counters_go_before_shapes() -> None:
    device_attributes = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    layers = layer_run((0, "dense", 10_000), layers=device_attributes, conditions=ROOF)
    kernels = kernel_run((0, "k", 8000, 6e6, 500, 500, 1.0), conditions=ROOF)
    rows = named(rows_of(table_of(ANALYSIS, layers, kernels)))
    assert (rows["dense"]["source"], rows["dense"]["time"]) == ("counters", 8000.0)
    assert rows["dense"]["least_time"] == 6000.0


def test_an_unknown_roof_is_no_roof_of_zero() -> None:
    device_attributes = [[0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]]
    table = table_of(ANALYSIS, layer_run((0, "dense", 10), layers=device_attributes, conditions={}))
    assert table.rows == ()
    assert table.verdict.startswith("The roof of no device is known")
