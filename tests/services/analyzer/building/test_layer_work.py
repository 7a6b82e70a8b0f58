"""Whose time a layer's is: its kernels' where some were traced; on a GPU its own is of launches."""

from typing import Any

import pytest

from services.analyzer.building.table import Analysis
from services.analyzer.tables.kernels_by_layer import ANALYSIS as BY_LAYER
from services.analyzer.tables.layer_latency import ANALYSIS as LATENCY
from services.analyzer.tables.layer_types import ANALYSIS as TYPES
from services.analyzer.tables.layers import ANALYSIS as LAYERS
from services.analyzer.tables.stages import ANALYSIS as STAGES
from services.analyzer.tables.work_kinds import ANALYSIS as KINDS
from tests.services.analyzer.tables.reading import rows_of, span, table_of
from tests.services.analyzer.tables.traced import (
    counter_run,
    kernel_run,
    layer_run,
    model_run,
    named,
)

GPU: dict[str, Any] = {"device": "gpu"}
LAYERED = layer_run(
    (0, "a", 900),
    (1, "b", 300),
    (2, "c", 300),
    layers=[[0, "a", "BatchNorm"], [1, "b", "Conv"], [2, "c", "Relu"]],
    **GPU,
)
PLAIN = model_run(spans=[span(n, 2, "predict", 8000, of=n) for n in range(3)], **GPU)
WORKED = kernel_run((0, "k0", 100), (1, "k1", 1500), (1, "k2", 500), (2, "k3", 400), **GPU)


def test_kinds_take_their_kernels_time_as_a_part_of_untraced_predict() -> None:
    table = table_of(KINDS, PLAIN, LAYERED, WORKED)
    rows = named(rows_of(table), "kind")
    assert [row["time"] for row in rows.values()] == [2000, 400, 100]
    assert {(row["run"], row["time_of"]) for row in rows.values()} == {("s", "kernels")}
    assert rows["convolution"]["share"] == 2000 / 8000
    assert rows["convolution"]["share_of_layers"] == 0.8
    assert "kernel time in s: convolution 80.0%" in table.verdict
    assert "of predict: convolution 25.0%" in table.verdict


def test_stages_take_their_kernels_time() -> None:
    table = table_of(STAGES, PLAIN, LAYERED, WORKED)
    assert [row["time"] for row in rows_of(table)] == [100, 2000, 400]
    assert {row["time_of"] for row in rows_of(table)} == {"kernels"}
    assert table.verdict == "In s, most kernel latency is in the middle."
    assert not [note for note in table.caveats if "launches" in note]


def test_a_layers_kernels_have_the_statistics_of_their_sums_by_query() -> None:
    kernels = [[n, 1, "k", n * 20_000 + at, 100 * (n + 1)] for n in range(3) for at in range(2)]
    absent = [[0, 0, "other", 9, 60]]
    runs = PLAIN, LAYERED, WORKED | {"kernels": [*kernels, *absent]}
    told = named(rows_of(table_of(BY_LAYER, *runs)))
    rows = named(rows_of(table_of(KINDS, *runs)), "kind")
    assert (told["b"]["time"], told["a"]["time"]) == (400, 0)
    for kind, name in (("convolution", "b"), ("normalisation", "a")):
        for figure in ("time", "time_low", "time_high", "queries"):
            assert rows[kind][figure] == told[name][figure]
    assert rows["other"]["time"] == 0


def test_kernels_of_no_known_layer_are_of_unknown_kind() -> None:
    lost = kernel_run((1, "k1", 1500), (None, "k2", 500), **GPU)
    table = table_of(KINDS, PLAIN, LAYERED, lost)
    unknown = named(rows_of(table), "kind")["unknown"]
    assert (unknown["layers"], unknown["time"], unknown["share_of_layers"]) == (0, 500, 0.25)
    assert "in s: convolution at least 75.0%, attention unknown;" in table.verdict
    assert any("25.00% of the kernel time belongs to no" in note for note in table.caveats)
    assert [row["time"] for row in rows_of(table_of(STAGES, PLAIN, LAYERED, lost))] == [0, 1500, 0]


def test_layers_that_only_kernels_tell_of_are_there() -> None:
    # A CUDA graph is replayed whole: layers are those of a call without it.
    device_attributes = [[0, "a", "Conv"], [4, "e", "Linear"], [5, "idle", "Relu"]]
    replayed = kernel_run((0, "k0", 900), (4, "k4", 100), layers=device_attributes, **GPU)
    rows = named(rows_of(table_of(KINDS, PLAIN, replayed)), "kind")
    assert {kind: row["time"] for kind, row in rows.items()} == {
        "convolution": 900,
        "matrix product": 100,
    }
    both = named(rows_of(table_of(KINDS, PLAIN, LAYERED, replayed)), "kind")
    assert {kind: row["time"] for kind, row in both.items() if row["time"]} == {
        "normalisation": 900,
        "matrix product": 100,
    }


def test_of_layers_that_share_an_index_the_first_has_the_kernels() -> None:
    twins = layer_run((0, "a", 900), (0, "b", 300), layers=[[0, "a", "Conv"], [0, "b", "Relu"]])
    rows = named(
        rows_of(table_of(KINDS, PLAIN, twins | GPU, kernel_run((0, "k", 500), **GPU))), "kind"
    )
    assert (rows["convolution"]["time"], rows["other"]["time"]) == (500, 0)


def test_kernels_do_not_hold_the_cost_of_tracing_them() -> None:
    deep = WORKED | {"spans": [*LAYERED["spans"]], "layers": LAYERED["layers"]}
    for analysis, is_told in ((KINDS, False), (STAGES, False), (TYPES, True)):
        notes = table_of(analysis, PLAIN, deep).caveats
        assert any("no run stops at level framework" in each for each in notes) is is_told


def test_a_replay_for_counters_tells_of_no_latency() -> None:
    replay = counter_run((0, "k", 500, 1, 1, 1, 10.0), layers=[[0, "a", "Conv"]], **GPU)
    table = table_of(KINDS, replay)
    (row,) = rows_of(table)
    assert (row["time"], row["share"], row["time_of"]) == (500, None, "kernels")
    assert table.verdict == "Of the kernel time in h: convolution 100.0%, attention 0.0%."
    assert any("replay for counters: its kernel times are not" in note for note in table.caveats)


@pytest.mark.parametrize(
    ("analysis", "said"),
    [
        (LAYERS, "The slowest of 3 layers to launch is a (BatchNorm)"),
        (LATENCY, "3 of 3 layers take less than 1 ms to launch in l; the slowest 3 take 100.0% of"),
        (TYPES, "BatchNorm takes 60.0% of the time to launch in l"),
        (STAGES, "In l, most time to launch is in the beginning."),
        (KINDS, "Of predict in l, time to launch: convolution 3.0%, attention 0.0%."),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_on_a_gpu_layers_without_kernels_launch(analysis: Analysis, said: str) -> None:
    table = table_of(analysis, PLAIN, LAYERED)
    assert said in table.verdict
    (note,) = [each for each in table.caveats if "launches return at once" in each]
    assert note.startswith("l: ")
    assert note.endswith("request level system or serialised runs to see it")
    assert {row.get("time_of", "layer") for row in rows_of(table)} == {"layer"}
    on_host = table_of(analysis, PLAIN | {"device": "cpu"}, LAYERED | {"device": "cpu"})
    assert "launch" not in on_host.verdict
    assert not [each for each in on_host.caveats if "launches" in each]


@pytest.mark.parametrize("analysis", [LAYERS, LATENCY, TYPES], ids=lambda each: each.name)
def test_what_tells_a_layers_work_is_named(analysis: Analysis) -> None:
    waited = layer_run((0, "a", 5000)) | {"run": "w", "variant": "serialised", **GPU}
    table = table_of(analysis, PLAIN, LAYERED, WORKED, waited)
    (note,) = [each for each in table.caveats if "launches return at once" in each]
    assert "A11 and A13 show their kernel time; the serialised run w waited for each" in note
    alone = table_of(analysis, waited)
    assert not [each for each in alone.caveats if "launches return at once" in each]


def test_the_slowest_layer_that_was_waited_for_is_told() -> None:
    waited = layer_run((0, "a", 100), (1, "b", 5000), run="w", variant="serialised", **GPU)
    verdict = table_of(LAYERS, PLAIN, LAYERED, waited).verdict
    assert "layers to launch is a (BatchNorm): 900 ns" in verdict
    assert verdict.endswith(
        "; serialised, the slowest is b (T1): 5 µs per query, 50.0% of predict in w."
    )


def test_a_serialised_run_of_another_batch_size_is_not_set_beside() -> None:
    waited = layer_run((0, "a", 100), run="w", variant="serialised", batch_size=8, **GPU)
    verdict = table_of(LAYERS, PLAIN, LAYERED, waited).verdict
    assert verdict.endswith("of predict in l.")


def test_layers_that_an_imported_ncu_report_told_were_not_launched() -> None:
    replayed = LAYERED | {"run": "h", "level": 6, "device": "cuda"}
    table = table_of(LAYERS, replayed)
    assert "launch" not in table.verdict
    assert not [note for note in table.caveats if "launches" in note]
    assert "launch" in table_of(LAYERS, LAYERED).verdict
