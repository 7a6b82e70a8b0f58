"""Kinds of work and stages of models on an H200, by their kernels, recorded and analysed again."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of
from services.analyzer.analysis import Analyzed, analyze
from tests.gpu.recordings import recorded_bundle
from tests.gpu.tables import rows_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@cache
def analyzed(name: str, folder: Path) -> Analyzed:
    return analyze(frames_of(recorded_bundle(name, folder)))


def kinds(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    rows = rows_of(analyzed(name, folder).tables, "work_kinds")
    assert {row["time_of"] for row in rows} == {"kernels"}
    return {row["kind"]: row for row in rows}


@pytest.mark.parametrize(
    ("name", "of_kernels", "of_predict"),
    [
        ("resnet50-full", 0.837, 0.420),
        ("resnet50-32", 0.787, 0.619),
        ("detector", 0.784, 0.488),
        ("graph", 0.591, 0.156),
        ("compiled-graph", 0.606, 0.053),
        # Most of so small a net's kernels are copies that XLA fuses.
        ("jax", 0.270, 0.005),
    ],
)
def test_convolutions_kernels_tell_its_share(
    name: str, of_kernels: float, of_predict: float, folder: Path
) -> None:
    row = kinds(name, folder)["convolution"]
    told = row["share_of_layers"], row["share"]
    assert told == (pytest.approx(of_kernels, abs=5e-4), pytest.approx(of_predict, abs=5e-4))
    (kernels,) = rows_of(analyzed(name, folder).tables, "A15")
    assert sum(each["time"] for each in kinds(name, folder).values()) == pytest.approx(
        kernels["time"], rel=0.01
    )
    assert row["share"] == row["time"] / kernels["latency"]


def test_a_resnets_latency_lies_in_its_end(folder: Path) -> None:
    rows = rows_of(analyzed("resnet50-full", folder).tables, "stages")
    shares = [row["share_of_time"] for row in rows]
    assert shares == pytest.approx([0.330, 0.311, 0.359], abs=5e-4)
    assert [row["stage"] for row in rows if "latency" in row["dominates"]] == ["end"]


def test_layers_own_times_are_called_launches(folder: Path) -> None:
    tables = {each.id: each for each in analyzed("detector", folder).tables}
    assert "layers to launch: rpn/clamp" in tables["A2"].verdict
    assert " to launch in " in tables["A3"].verdict
    assert "of the time to launch" in tables["A6"].verdict
    for name in ("A2", "A3", "A6"):
        (note,) = [each for each in tables[name].caveats if "launches return at once" in each]
        assert "A11 and A13 show their kernel time; request serialised runs" in note


def test_a_detector_copies_in_layers_and_a_resnet_outside_of_them(folder: Path) -> None:
    rows = rows_of(analyzed("detector", folder).tables, "copies_by_layer")
    assert [(row["name"], row["copies"]) for row in rows] == [
        ("transform", 3),
        ("rpn/clamp", 10),
        ("roi_heads.box_roi_pool", 7),
        ("FasterRCNN/softmax", 14),
        ("(no layer)", 4),
    ]
    directions = ("host_to_device", "device_to_host", "device_to_device", "other")
    for row in rows:
        assert sum(row[name] for name in directions) == row["time"]
    (use,) = rows_of(analyzed("detector", folder).tables, "device_use")
    assert sum(row["time"] for row in rows) == pytest.approx(use["copies"])
    (outside,) = rows_of(analyzed("resnet50-32", folder).tables, "copies_by_layer")
    assert (outside["layer"], outside["copies"], outside["share"]) == (None, 2, None)
