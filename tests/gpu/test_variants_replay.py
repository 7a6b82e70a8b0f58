"""Cold starts of ResNet-18 on an H200, and the same one launch at a time, analysed again."""

from typing import Any

import pytest

pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of
from services.analyzer.analysis import Analyzed, analyze
from tests.gpu.recordings import recorded_bundle
from tests.gpu.tables import rows_of

WEIGHTED = 41
"""ResNet-18's convolutions, norms and classifier."""


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    return analyze(frames_of(recorded_bundle("cold", tmp_path_factory.mktemp("cold"))))


@pytest.fixture(scope="module")
def serialised(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    return analyze(frames_of(recorded_bundle("serialised", tmp_path_factory.mktemp("blocking"))))


def by_variant(analyzed: Analyzed, name: str, variant: str) -> list[dict[str, Any]]:
    return [row for row in rows_of(analyzed.tables, name) if row["variant"] == variant]


def test_each_layers_weights_are_copied_to_the_device(cold: Analyzed) -> None:
    rows = [row for row in rows_of(cold.tables, "cold_layers") if row["weight_bytes"]]
    assert len(rows) == WEIGHTED
    assert all(0 < row["copy"] < row["place"] for row in rows)
    # ResNet-18 has 11.7 M weights in float32.
    assert sum(row["weight_bytes"] for row in rows) == pytest.approx(4 * 11.7e6, rel=0.01)


def test_a_first_run_takes_longer_than_a_warm_one(cold: Analyzed) -> None:
    parts = {row["part"]: row for row in rows_of(cold.tables, "cold_start") if not row["layer"]}
    assert parts["open"]["cold"] > 0
    assert parts["predict"]["cold"] > 2 * parts["predict"]["warm"] > 0
    assert parts["predict"]["count"] == 2
    layers = [row for row in rows_of(cold.tables, "cold_layers") if row["first"] is not None]
    assert sum(row["first"] > row["warm"] for row in layers) > 0.9 * len(layers)


def test_a_serialised_layer_outlasts_its_kernels(serialised: Analyzed) -> None:
    plain, blocking = (by_variant(serialised, "A13", each) for each in ("", "serialised"))
    with_kernels = [row for row in blocking if row["kernels"]]
    assert len(with_kernels) > WEIGHTED
    assert all(row["non_gpu"] > 0 and not row["is_negative"] for row in with_kernels)
    assert any(row["is_negative"] for row in plain)


def test_serialised_runs_are_rows_beside_plain_ones(serialised: Analyzed) -> None:
    for name in ("A2", "A8", "A11", "A13"):
        plain, blocking = (by_variant(serialised, name, each) for each in ("", "serialised"))
        assert len(plain) == len(blocking) > 0, name


def test_an_inferences_energy_is_told(serialised: Analyzed) -> None:
    rows = {row["run"]: row for row in rows_of(serialised.tables, "energy")}
    model = rows["b256-online-model"]
    assert (model["part"], model["source"], model["answered"]) == (
        "gpu",
        "energy.gpu",
        2 * 12 * 256,
    )
    # An H200's board idles at 70 to 120 W and takes 700 at most.
    assert all(120 < row["power"] < 700 for row in rows.values() if row["power"] is not None)
    assert model["per_sample"] == pytest.approx(0.079, abs=0.005)


def test_how_its_clock_moved_is_told(serialised: Analyzed) -> None:
    rows = {row["what"]: row for row in rows_of(serialised.tables, "device_conditions")}
    assert 1000 < rows["clock_sm"]["min"] <= rows["clock_sm"]["max"] < 2100
    assert rows["clock_sm"]["samples"] >= 10
    assert {"power", "temperature", "utilisation", "throttled"} <= {*rows}
