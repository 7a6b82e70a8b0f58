"""Points of rooflines without counters: what shapes tell of kernels, of a model, and what not."""

from typing import Any

import pytest

from services.analyzer.tables.kernel_roofline import ANALYSIS as A9
from services.analyzer.tables.kernels_by_model import ANALYSIS as A15
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import counter_run, kernel_run, layer_run, model_run

ROOF = {"peak_flops": {"measured": 1e12}, "memory_bandwidth": {"measured": 1e11}}


def layers(*work: tuple[int | None, int | None, int | None]) -> dict[str, Any]:
    """Return layers a, b, c … of 1,000 ns that tell FLOP, bytes read and written."""
    named = [(index, "abcdef"[index], 1000) for index in range(len(work))]
    device_attributes = [
        [i, name, "T", "", "", None, None, *work[i]] for (i, name, _) in named if work[i][1]
    ]
    return layer_run(*named, layers=device_attributes, conditions=ROOF)


RUNS = (
    model_run(conditions=ROOF),
    layers((5_000_000, 60_000, 40_000), (900, 40, 60), (700, 50, 50)),
    kernel_run((0, "gemm", 8000), (1, "copy", 100), (1, "add", 50), (2, "x", 70), conditions=ROOF),
)


def test_a_kernel_alone_in_its_layer_has_the_layers_point() -> None:
    rows = {row["name"]: row for row in rows_of(table_of(A9, *RUNS))}
    assert set(rows) == {"gemm", "x"}
    gemm = rows["gemm"]
    assert (gemm["source"], gemm["intensity"], gemm["ridge"]) == ("static", 50.0, 10.0)
    assert gemm["throughput"] == pytest.approx(5_000_000 / 8e-6)
    assert (gemm["roof"], gemm["memory_bound"]) == (1e12, False)
    assert (rows["x"]["roof"], rows["x"]["memory_bound"]) == (7e11, True)


def test_a9_says_what_shapes_leave_out_and_what_its_roof_is() -> None:
    table = table_of(A9, *RUNS)
    assert "by shapes, not by counters" in table.verdict
    assert any("shown are 2 of 4 kernels, those alone in a layer" in each for each in table.caveats)
    assert (
        "s: the roof is 1 TFLOP/s (uncertainty unknown) and 100 GB/s (uncertainty unknown)"
        in table.caveats
    )


def test_a_model_has_the_point_of_all_its_layers() -> None:
    (row,) = rows_of(table_of(A15, *RUNS))
    assert (row["source"], row["flops"]) == ("static", 5_001_600.0)
    assert row["intensity"] == pytest.approx(5_001_600 / 100_200)
    assert row["throughput"] == pytest.approx(5_001_600 / 8.22e-6)
    assert (row["memory_bound"], row["ridge"], row["roof"]) == (False, 10.0, 1e12)
    assert row["of_roof"] == pytest.approx(5_001_600 / 8.22e-6 / 1e12)
    assert row["dram_read_bytes"] is None


def test_layers_that_tell_no_work_are_named() -> None:
    some = layers((5_000_000, 60_000, 40_000), (None, None, None))
    kernels = kernel_run((0, "gemm", 3000), (1, "copy", 600), (1, "add", 400), conditions=ROOF)
    table = table_of(A15, RUNS[0], some, kernels)
    (row,) = rows_of(table)
    assert row["flops"] == 5_000_000.0
    assert row["intensity"] == 50.0
    assert row["memory_bound"] is None
    told = "1 of 2 layers, 25.0% of their time, has unknown work (b)"
    assert f"s: {told}: it is not in the throughput" in table.caveats


def test_a_layer_without_kernels_leaves_nothing_out() -> None:
    some = layers((5_000_000, 60_000, 40_000), (None, None, None))
    table = table_of(A15, RUNS[0], some, kernel_run((0, "gemm", 8000), conditions=ROOF))
    (row,) = rows_of(table)
    assert row["memory_bound"] is False
    assert not any("no work" in each for each in table.caveats)


def test_counters_go_before_shapes() -> None:
    counted = counter_run((0, "gemm", 8000, 6e6, 500, 500, 1.0), conditions=ROOF)
    runs = (*RUNS[:2], kernel_run((0, "gemm", 8000), conditions=ROOF), counted)
    (kernel,), (model,) = (rows_of(table_of(each, *runs)) for each in (A9, A15))
    assert (kernel["source"], kernel["intensity"]) == ("counters", 6000.0)
    assert (model["source"], model["flops"], model["ridge"]) == ("counters", 6e6, 10.0)


def test_without_layers_and_counters_nothing_is_told() -> None:
    assert rows_of(table_of(A9, RUNS[0], RUNS[2])) == []
    (row,) = rows_of(table_of(A15, RUNS[0], RUNS[2]))
    assert (row["source"], row["flops"], row["of_roof"]) == ("", None, None)
