"""GPU and non-GPU: told by runs whose launches are waited for, else by predict as a whole."""

from typing import Any

import pytest

from services.analyzer.building.table import Analysis
from services.analyzer.tables.gpu_and_rest import ANALYSIS
from services.analyzer.tables.kernels_by_layer import ANALYSIS as BY_LAYER
from services.analyzer.tables.layers import ANALYSIS as LAYERS
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import kernel_run, layer_run, model_run, named

LAUNCHES = (0, "conv", 100), (1, "relu", 50)
KERNELS = (0, "gemm", 2000), (1, "max", 500)
PLAIN = (model_run(), layer_run(*LAUNCHES), kernel_run(*KERNELS))


def waited(*layers: tuple[int, str, int], **more: Any) -> dict[str, Any]:
    """Return a run in which each launch is waited for, one level deep: layers and kernels."""
    told = {"run": "b", "session": "b1-serialised", "variant": "serialised", "level": 5}
    return layer_run(*layers) | {"kernels": kernel_run(*KERNELS)["kernels"]} | told | more


def test_without_a_serialised_run_predict_alone_tells() -> None:
    table = table_of(ANALYSIS, *PLAIN)
    assert table.verdict == (
        "Kernels take 25.0% of predict; non-GPU time by layer is unknown in s, which is not "
        "serialised: kernels outlast their layers' calls."
    )
    assert any("request serialised runs" in caveat for caveat in table.caveats)


def test_the_serialised_runs_own_layers_and_kernels_tell_non_gpu_time() -> None:
    table = table_of(ANALYSIS, waited((0, "conv", 2600), (1, "relu", 525)), *PLAIN)
    plain, alone = rows_of(table)[:2], named(rows_of(table)[2:])
    assert [(row["run"], row["variant"], row["non_gpu"]) for row in plain] == [
        ("s", "", -1900),
        ("s", "", -450),
    ]
    assert [(alone[name]["non_gpu"], alone[name]["variant"]) for name in ("conv", "relu")] == [
        (600, "serialised"),
        (25, "serialised"),
    ]
    assert table.verdict.startswith(
        "Kernels take 80.0% of the latency of 2 layers in b, serialised"
    )
    assert any("; the serialised run b waited for" in caveat for caveat in table.caveats)


def test_runs_of_one_session_are_never_mixed_in_a_row() -> None:
    # An import may put both into one session.
    both = waited((0, "conv", 2600), (1, "relu", 525), session="")
    rows = rows_of(table_of(ANALYSIS, both, *PLAIN))
    assert {(row["variant"], row["run"], row["latency"]) for row in rows} == {
        ("", "s", 100),
        ("", "s", 50),
        ("serialised", "b", 2600),
        ("serialised", "b", 525),
    }


def test_kernels_by_layer_and_layers_have_serialised_rows_behind_plain_ones() -> None:
    both = waited((0, "conv", 2600), (1, "relu", 525)), *PLAIN
    by_layer, layers = table_of(BY_LAYER, *both), table_of(LAYERS, *both)
    assert [(row["variant"], row["latency"]) for row in rows_of(by_layer)] == [
        ("", 100),
        ("", 50),
        ("serialised", 2600),
        ("serialised", 525),
    ]
    assert "(b, serialised)" in by_layer.verdict
    told = [(row["run"], row["variant"], row["time"]) for row in rows_of(layers)]
    assert told[:2] == [("l", "", 100), ("l", "", 50)]
    assert told[2:] == [("b", "serialised", 2600), ("b", "serialised", 525)]
    slowest = "in l; serialised, the slowest is conv (T0): 2.6 µs per query, 26.0% of predict in b."
    assert layers.verdict.endswith(slowest)


@pytest.mark.parametrize("analysis", [ANALYSIS, BY_LAYER], ids=lambda each: each.name)
def test_overlapping_layers_are_told_beside_their_kernels(analysis: Analysis) -> None:
    overlapping = layer_run((0, "conv", 100), (1, "relu", 50), run="s", level=5)
    for place, row in enumerate(overlapping["spans"]):
        row[6] = place % 2
    overlapping["kernels"] = kernel_run(*KERNELS)["kernels"]
    alone = table_of(analysis, overlapping)
    assert any("parents are ambiguous: request serialised runs" in each for each in alone.caveats)
    both = table_of(analysis, overlapping, waited((0, "conv", 2600), (1, "relu", 525)))
    assert any("ambiguous: see the serialised runs" in each for each in both.caveats)


def test_cold_runs_and_replays_for_counters_stay_out() -> None:
    cold = waited((0, "conv", 9), run="c", session="c", variant="cold")
    replay = waited((0, "conv", 9), run="h", session="h", variant="counters", level=6)
    rows = rows_of(table_of(ANALYSIS, cold, replay, *PLAIN))
    assert {row["run"] for row in rows} == {"s"}


def test_kernels_without_layers_make_no_rows() -> None:
    table = table_of(ANALYSIS, model_run(), kernel_run(*KERNELS))
    assert (table.rows, table.verdict) == ((), "No run at level framework has layers.")
    assert not any("launches return at once" in caveat for caveat in table.caveats)


def test_the_share_of_predict_is_of_the_run_whose_layers_are_shown() -> None:
    # Of two agents' predicts of 10 µs, kernels take 5 µs where no layers are known, else 2.5 µs.
    bare = [model_run(agent="a", run="am"), kernel_run((0, "gemm", 5000), agent="a", run="as")]
    layered = [run | {"agent": "b"} for run in PLAIN]
    assert table_of(ANALYSIS, *bare, *layered).verdict.startswith(
        "Kernels take 25.0% of predict; non-GPU time by layer is unknown in s,"
    )


def test_a_layer_as_long_as_its_kernels_is_not_negative_nor_has_it_a_rest() -> None:
    table = table_of(ANALYSIS, model_run(), waited((0, "conv", 2000), (1, "relu", 500)))
    assert [(row["non_gpu"], row["is_negative"]) for row in rows_of(table)] == [(0, False)] * 2
    assert not any("negative non-GPU time" in caveat for caveat in table.caveats)


def test_no_layer_of_a_serialised_run_leads_where_kernels_outlast_all() -> None:
    table = table_of(ANALYSIS, model_run(), waited((0, "conv", 1600), (1, "relu", 400)))
    # 2500 of kernels over 2000 of layers.
    assert table.verdict == (
        "Kernels take 125.0% of the latency of 2 layers in b, serialised; "
        "no layer takes longer than its kernels."
    )


def test_a_single_layer_leads_alone() -> None:
    table = table_of(ANALYSIS, model_run(), waited((0, "conv", 4000), kernels=[]))
    assert table.rows == ()
    alone = waited((0, "conv", 4000), kernels=kernel_run((0, "gemm", 1000))["kernels"])
    assert table_of(ANALYSIS, model_run(), alone).verdict == (
        "Kernels take 25.0% of the latency of 1 layer in b, serialised; "
        "layer conv has the most non-GPU time, 3 µs."
    )


def test_one_query_leaves_a_difference_without_an_interval() -> None:
    once = waited((0, "conv", 2600), kernels=kernel_run(*KERNELS, count=1)["kernels"])
    once["queries"] = once["queries"][:1]
    once["spans"] = [row for row in once["spans"] if row[7] == 0]
    (row,) = rows_of(table_of(ANALYSIS, model_run(), once))
    assert row["non_gpu"] == 600
    assert (row["non_gpu_low"], row["non_gpu_high"]) == (None, None)
