"""Flaws of the originals' code and tables: none may come back.

The originals are MLModelScope's analyses in Go (`summary_layer.go`, `summary_gpu_kernel.go`,
`num.go`), which a comment names where a test is about one of their errors, and the tables of the
paper on XSP (Table IX is in `tests/golden/xsp`).
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlscope.statistics import trimmed_mean
from services.analyzer.building.kernel_sums import (
    COLD_KERNELS,
    NO_KERNELS,
    ONLY_COPIES,
    ONLY_REPLAY,
    OUTSIDE_QUERIES,
    SERIALISED_KERNELS,
    UNUSED_KERNELS,
)
from services.analyzer.building.roofs.ceilings import ceilings_of
from services.analyzer.building.stacks import SERIALISED
from services.analyzer.building.table import Analysis
from services.analyzer.frames.evaluation import RunRow
from services.analyzer.frames.kernels import point_of
from services.analyzer.tables import ANALYSES
from services.analyzer.tables.device_use import ANALYSIS as DEVICE_USE
from services.analyzer.tables.gpu_and_rest import ANALYSIS as GPU_AND_REST
from services.analyzer.tables.kernels import ANALYSIS as KERNELS
from services.analyzer.tables.kernels_by_layer import ANALYSIS as BY_LAYER
from services.analyzer.tables.kernels_by_model import ANALYSIS as BY_MODEL
from services.analyzer.tables.kernels_by_name import ANALYSIS as BY_NAME
from services.analyzer.tables.layer_counters import ANALYSIS as LAYER_COUNTERS
from services.analyzer.tables.layers import ANALYSIS as LAYERS
from services.analyzer.tables.optimal_batch import ANALYSIS as OPTIMAL_BATCH
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import (
    V100,
    copy,
    counter_run,
    kernel_run,
    layer_run,
    memset,
    model_run,
    named,
    predicts,
    queries,
)

TABLE_IX = Path(__file__).parents[3] / "golden" / "xsp" / "table_ix.csv"
BY_KERNELS = (KERNELS, BY_NAME, BY_LAYER, BY_MODEL)
LAYERS_TOO = ("layer_roofline", "roof_distance")
"""Analyses of layers that have rows of kernels too: without any they say what layers they lack."""


def of_kernels() -> Iterator[Analysis]:
    """Yield the analyses that have rows only where kernels were traced."""
    layers, kernels = layer_run((0, "conv", 1000)), kernel_run((0, "k", 100, 5.0, 1, 1, 10.0))
    for analysis in ANALYSES:
        needs_kernels = not table_of(analysis, layers).rows
        if needs_kernels and table_of(analysis, layers, kernels).rows:
            yield analysis


def published() -> list[dict[str, str]]:
    """Return XSP's Table IX, a map a model."""
    with TABLE_IX.open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@pytest.mark.parametrize("row", published(), ids=lambda row: row["model"])
def test_every_published_flag_and_figure_follows_from_the_formulas(row: dict[str, str]) -> None:
    told = {name: float(row[name]) for name in ("gflop", "read_gb", "write_gb", "batch_ms")}
    time_ns = told["batch_ms"] * 1e6 * float(row["gpu_percent"]) / 100
    moved = told["read_gb"] * 1e9, told["write_gb"] * 1e9
    v100 = ceilings_of(RunRow(1, "r", conditions=V100))
    point = point_of(told["gflop"] * 1e9, moved, time_ns, v100)
    assert point["intensity"] == pytest.approx(float(row["intensity"]), rel=0.01)
    assert point["throughput"] / 1e12 == pytest.approx(float(row["tflops"]), rel=0.005)
    assert point["memory_bound"] is (row["memory_bound"] == "Y")


def test_memory_bound_is_about_intensity_not_throughput() -> None:
    # XSP's first version compared arithmetic throughput: a slow kernel of high intensity.
    slow = kernel_run((0, "k", 9000, 1e6, 100, 100, 50.0))
    (row,) = rows_of(table_of(BY_NAME, slow))
    assert row["throughput"] < 15.7e12 / 100
    assert (row["intensity"], row["memory_bound"]) == (5000.0, False)


def test_layers_of_one_name_do_not_merge_between_runs() -> None:
    # summary_layer.go compares an index with itself.
    layers = layer_run((0, "conv", 1000), (1, "conv", 3000))
    kernels = kernel_run((0, "k", 900), (1, "k", 2000))
    found = named(rows_of(table_of(BY_LAYER, layers, kernels)), "layer")
    assert [(found[n]["latency"], found[n]["time"]) for n in (0, 1)] == [(1000, 900), (3000, 2000)]
    assert [row["time"] for row in rows_of(table_of(LAYERS, layers))] == [1000, 3000]
    for analysis in (BY_LAYER, GPU_AND_REST):
        assert "layer conv (index 1)" in table_of(analysis, layers, kernels).verdict


def test_repeated_kernels_of_a_layer_keep_apart_and_get_their_own_counters() -> None:
    # summary_gpu_kernel.go matches by name alone.
    traced = kernel_run((0, "k", 100), (0, "k", 300))
    replay = counter_run((0, "k", 1, 5.0, 1, 1, 10.0), (0, "k", 1, 7.0, 1, 1, 20.0))
    rows = named(rows_of(table_of(KERNELS, traced, replay)), "nth")
    assert [(rows[n]["time"], rows[n]["flops"]) for n in (0, 1)] == [(100, 5.0), (300, 7.0)]


def test_counts_do_not_begin_at_zero() -> None:
    # name_aggre printed n - 1.
    (row,) = rows_of(table_of(BY_NAME, kernel_run(*[(n, "k", 10) for n in range(4)])))
    assert (row["calls"], row["queries"], row["time"]) == (4.0, 3, 40.0)


def test_layer_zero_counts() -> None:
    # layer_aggre and model_aggre skipped it.
    run = kernel_run((0, "k", 100, 5.0, 1, 1, 10.0), (1, "k", 10, 2.0, 1, 1, 10.0))
    assert named(rows_of(table_of(BY_LAYER, run)), "layer")[0]["time"] == 100.0
    assert named(rows_of(table_of(LAYER_COUNTERS, run)), "layer")[0]["flops"] == 5.0
    (model,) = rows_of(table_of(BY_MODEL, run))
    assert (model["time"], model["flops"]) == (110.0, 7.0)


@pytest.mark.parametrize("analysis", BY_KERNELS, ids=lambda each: each.name)
def test_missing_counters_are_not_zero_and_flag_nothing(analysis: Analysis) -> None:
    table = table_of(analysis, kernel_run((0, "k", 100)))
    (row,) = rows_of(table)
    told = ("flops", "dram_read_bytes", "occupancy", "intensity", "throughput", "memory_bound")
    assert [row[name] for name in told] == [None] * 6
    assert row["counted"] == 0.0
    assert "No run at level hardware" in table.verdict


@pytest.mark.parametrize("analysis", BY_KERNELS, ids=lambda each: each.name)
def test_an_unknown_device_leaves_the_flag_open(analysis: Analysis) -> None:
    # An unknown GPU had ideal intensity 0, and nothing was ever memory-bound.
    run = kernel_run((0, "k", 100, 1.0, 500, 500, 50.0), conditions={})
    table = table_of(analysis, run)
    (row,) = rows_of(table)
    assert (row["intensity"], row["memory_bound"], row["roof"]) == (0.001, None, None)
    assert any("are unknown, so roof and" in caveat for caveat in table.caveats)


def test_four_values_are_not_robbed_of_their_largest_alone() -> None:
    # num.go: end = min(n - 1, ...) for exactly 4 samples.
    assert trimmed_mean([1.0, 2.0, 3.0, 10.0]) == 4.0


def test_a_trim_of_nothing_is_the_mean() -> None:
    # num.go read fraction 0 as 0.2.
    assert trimmed_mean([0.0, 0.0, 0.0, 0.0, 100.0], 0.0) == 20.0


def test_negative_rest_is_shown_and_flagged() -> None:
    layers, kernels = layer_run((0, "conv", 1000)), kernel_run((0, "k", 1500))
    table = table_of(GPU_AND_REST, layers, kernels)
    (row,) = rows_of(table)
    assert (row["non_gpu"], row["is_negative"], row["gpu_share"]) == (-500.0, True, 1.5)
    assert any("negative non-GPU time" in caveat for caveat in table.caveats)


def test_models_latency_is_not_of_the_run_that_traced_kernels() -> None:
    slow = [[n, None, 2, "predict", n * 20_000, 14_000, 0, n, 0] for n in range(3)]
    (row,) = rows_of(table_of(BY_MODEL, model_run(), kernel_run((0, "k", 5000), spans=slow)))
    assert (row["latency"], row["gpu_share"]) == (10_000.0, 0.5)


def test_times_of_a_replay_for_counters_are_no_times() -> None:
    replay = counter_run((0, "k", 700_000, 5.0, 1, 1, 10.0))
    (row,) = rows_of(table_of(KERNELS, kernel_run((0, "k", 100)), replay))
    assert (row["time"], row["flops"]) == (100.0, 5.0)
    alone = table_of(KERNELS, replay | {"variant": "counters"})
    assert (alone.rows, alone.verdict) == ((), "No kernels: no run at level system traced a GPU.")


def test_an_imported_replay_tells_its_kernels_and_that_times_are_no_latencies() -> None:
    table = table_of(KERNELS, counter_run((0, "k", 700_000, 5.0, 1, 1, 10.0)))
    (row,) = rows_of(table)
    assert (row["name"], row["flops"], row["occupancy"]) == ("k", 5.0, 10.0)
    assert "h: a replay for counters: its kernel times are not latencies" in table.caveats
    assert row["share"] is None
    model = table_of(BY_MODEL, counter_run((0, "k", 700_000, 5.0, 1, 1, 10.0), spans=predicts(1)))
    (row,) = rows_of(model)
    assert (row["latency"], row["latency_queries"], row["gpu_share"]) == (None, 0, None)
    assert model.verdict.startswith("Kernels take 700 µs per query, of unknown latency, at batch 1")
    for other in (DEVICE_USE, GPU_AND_REST):
        alone = table_of(other, counter_run((0, "k", 700_000, 5.0, 1, 1, 10.0)))
        assert (alone.rows, alone.verdict) == ((), ONLY_REPLAY)


def test_a_table_of_kernels_says_why_it_has_none() -> None:
    runs = {
        COLD_KERNELS: kernel_run((0, "k", 100), variant="cold"),
        ONLY_COPIES: kernel_run(copy(0, 100), memset(None, 10)),
        OUTSIDE_QUERIES: kernel_run((None, "k", 100), count=1) | {"queries": queries(2)[1:]},
        NO_KERNELS: model_run(variant="cold"),
    }
    analyses = [analysis for analysis in of_kernels() if analysis.name not in LAYERS_TOO]
    assert all(analysis in analyses for analysis in (*BY_KERNELS, GPU_AND_REST, DEVICE_USE))
    for analysis in analyses:
        verdicts = [table_of(analysis, run).verdict for run in runs.values()]
        assert verdicts == [*runs], analysis.name


def test_kernels_of_serialised_runs_alone_are_pointed_to() -> None:
    serialised = kernel_run((0, "k", 100), variant=SERIALISED)
    assert table_of(BY_LAYER, serialised).rows
    for analysis in (BY_NAME, BY_MODEL, DEVICE_USE):
        table = table_of(analysis, serialised)
        assert (table.rows, table.verdict) == ((), SERIALISED_KERNELS)


def test_kernels_of_other_runs_are_not_said_to_be_of_one_variant_alone() -> None:
    serialised, cold = (kernel_run((0, "k", 100), variant=name) for name in (SERIALISED, "cold"))
    assert table_of(BY_NAME, serialised, cold).verdict == UNUSED_KERNELS
    # The first run of a load and level counts, and has no kernels here.
    second = kernel_run((0, "k", 100)) | {"run": "second"}
    assert table_of(BY_NAME, model_run(level=5), second).verdict == UNUSED_KERNELS
    assert table_of(BY_NAME, model_run(level=5), second, serialised).verdict == UNUSED_KERNELS


def test_kernels_are_not_recompiled_into_a_layers_mean_of_means() -> None:
    # Occupancy is weighted by latency: 10% over 300 ns and 50% over 100 ns.
    run = kernel_run((0, "a", 300, 0, 0, 0, 10.0), (0, "b", 100, 0, 0, 0, 50.0))
    (row,) = rows_of(table_of(BY_LAYER, run))
    assert row["occupancy"] == pytest.approx(20.0)


def test_bytes_are_bytes_everywhere() -> None:
    # XSP's DRAM "MB" are MiB, its layers' MB decimal.
    for analysis in ANALYSES:
        for column in analysis.columns:
            is_bytes = column.name.endswith("bytes") or column.name == "bytes"
            assert (column.unit == "By") == is_bytes, f"{analysis.name}.{column.name}"


#: times without an interval: noted once, least and most, a box, begins, totals, computed ones
NO_ESTIMATES = {
    "conditions": {"load_ns", "first_run_ns", "clock_offset_ns", "clock_bound_ns"},
    "latency": {"min", "max"},
    # Ends of buckets, and one query.
    "latency_histogram": {"begins", "ends", "slowest"},
    "lateness": {"max"},
    "layer_latency": {"min", "q1", "median", "q3", "max"},
    "throughput": {"busy_ns"},
    "blocks": {"began", "median"},
    "energy": {"busy"},
    # The row's latency, which has one, over a constant or less one.
    "optimal_batch": {"latency_per_sample"},
    "roof_distance": {"least_time", "datasheet_time"},
    # What the row's overhead, which has one, is a share of.
    "layer_overheads": {"time"},
}
COUNTS = {"queries", "latency_queries", "batches", "blocks", "count", "openings", "calls"}


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda each: each.name)
def test_every_estimate_of_time_has_its_interval_and_count(analysis: Analysis) -> None:
    names = {column.name for column in analysis.columns}
    ends = {f"{name}_{end}" for name in names for end in ("low", "high")}
    times = {column.name for column in analysis.columns if column.unit == "ns"} - ends
    bare = {name for name in times if not {f"{name}_low", f"{name}_high"} <= names}
    assert bare == NO_ESTIMATES.get(analysis.name, set())
    assert not times or names & COUNTS or analysis.name == "energy"


def test_a_latency_that_throughput_contradicts_is_told() -> None:
    # Tables VIII and IX disagree by more than 5% for 18 of 37 models, and nowhere say so.
    contradicted = 0
    for row in published():
        size, ns = int(row["batch_size"]), round(float(row["batch_ms"]) * 1e6)
        apart_ns = round(size / float(row["samples_per_s"]) * 1e9)
        queries = [[n, 0, size, None, n * apart_ns, 0, n * apart_ns + ns, ns, 0] for n in range(60)]
        table = table_of(OPTIMAL_BATCH, {"run": "r", "batch_size": size, "queries": queries})
        contradicted += any("batch size / latency" in caveat for caveat in table.caveats)
    assert contradicted == 18


def test_a_layer_that_is_called_a_number_is_called_a_layer() -> None:
    run = kernel_run((0, "k", 100, 5.0, 1, 1, 10.0), (1, "k", 10, 2.0, 3, 1, 10.0))
    layers = layer_run((0, "0", 900), (1, "1", 800))
    told = (
        (BY_LAYER, "with kernels, layer 0 takes longest"),
        (GPU_AND_REST, "layer 0 has the most non-GPU"),
    )
    for analysis, said in told:
        assert said in table_of(analysis, layers, run).verdict
    verdict = table_of(LAYER_COUNTERS, layers, run).verdict
    most = "layer 0 has the most FLOP (71.4%), layer 1 has the most DRAM reads (75.0%)."
    assert verdict == f"Of 2 layers in s, {most}"
