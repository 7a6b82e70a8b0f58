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


DENSE = [0, "dense", "T", "", "", None, None, 5_000_000, 1000, 1000]


def test_a_known_roof_of_unknown_work_is_not_called_unknown() -> None:
    table = table_of(ANALYSIS, layer_run((0, "odd", 1000), conditions=ROOF))
    assert table.verdict == "The distance from the roof is unknown: no layer has FLOP and bytes."


def test_a_predict_at_the_roof_is_said_to_be_there() -> None:
    quick = [span(1000 + n, 2, "predict", 5000, of=n) for n in range(3)]
    layers = layer_run((0, "dense", 5000), layers=[DENSE], conditions=ROOF)
    table = table_of(ANALYSIS, model_run(spans=quick), layers)
    assert rows_of(table)[0]["roof_position"] == "at"
    assert ", which is at the roof; layer dense loses the most, 0 ns." in table.verdict
    slower = table_of(ANALYSIS, layers)
    assert rows_of(slower)[0]["roof_position"] == "below"
    assert "at the roof" not in slower.verdict


def test_a_roof_that_may_be_higher_makes_the_least_time_shorter() -> None:
    roof = {"measured": 1e12, "uncertainty": 0.25}, {"measured": 1e11, "uncertainty": 0.25}
    conditions = dict(zip(ROOF, roof, strict=True))
    layers = layer_run((0, "dense", 10_000), layers=[DENSE], conditions=conditions)
    (model, dense) = rows_of(table_of(ANALYSIS, layers))
    # The least time is 5 µs, or 4 µs if the roof is 25% higher; predict always takes 10 µs.
    for row in (model, dense):
        assert (row["times_low"], row["times"], row["times_high"]) == (2.0, 2.0, 2.5)
        assert (row["lost_low"], row["lost"], row["lost_high"]) == (5000, 5000, 6000)


def test_without_predict_as_many_queries_count_as_every_layer_has() -> None:
    work = [DENSE, [1, "late", *DENSE[2:]]]
    layers = layer_run((0, "dense", 6000), (1, "late", 6000), layers=work, conditions=ROOF)
    layers["spans"] = [row for row in layers["spans"] if row[2] != 2]
    (model, *_) = rows_of(table_of(ANALYSIS, layers))
    assert (model["queries"], model["time"], model["least_time"]) == (3, 12_000, 10_000)
