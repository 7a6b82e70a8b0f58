"""The ridge that a survey's models are judged by: their own device's, never another's."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.survey import roofs
from benchmarks.survey.roofs import gpu_name, kept_roof, roofed_frames
from benchmarks.survey.rows import run_at, system_row
from benchmarks.survey.tables import sections
from cli.offline.bundle import read
from schemas.agent import Accelerator
from schemas.level import Level
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof
from services.analyzer.building.roofs.ceilings import Ceilings, ceilings_of
from tests.gpu.recordings import recorded, recorded_bundle

DATASHEET = 67e12 / 4.8e12


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return ResNet-50 on an H200, whose agent told no roof."""
    return recorded_bundle("resnet50-32", tmp_path_factory.mktemp("roofs"))


@pytest.fixture(scope="module")
def measured() -> Roof:
    return Roof.from_dict(recorded("roof_h200.json"))


def on_a(monkeypatch: pytest.MonkeyPatch, bundle: Path, name: str) -> None:
    """Have the bundle's agent announce another GPU."""
    told = read(bundle)
    gpus = (Accelerator(name=name),) if name else ()
    hardware = told.announcement.hardware.model_copy(update={"accelerators": gpus})
    said = told.announcement.model_copy(update={"hardware": hardware})
    monkeypatch.setattr(roofs, "read", lambda _: replace(told, announcement=said))


def ridge(bundle: Path, kept: Roof = NO_ROOF) -> Ceilings:
    run = run_at(roofed_frames(bundle, kept), Level.FRAMEWORK)
    assert run is not None
    return ceilings_of(run.row)


def test_a_roof_measured_beside_is_that_of_gpus_of_its_name(bundle: Path, measured: Roof) -> None:
    found = ridge(bundle, measured)
    assert found.kind == "measured"
    assert found.ideal_intensity == pytest.approx(12.0, abs=0.05)


def test_without_one_the_datasheet_of_that_gpu_counts(
    bundle: Path, measured: Roof, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ridge(bundle).ideal_intensity == pytest.approx(DATASHEET)
    on_a(monkeypatch, bundle, "NVIDIA A100-SXM4-40GB")
    found = ridge(bundle, measured)
    assert found.kind == "datasheet"
    assert found.ideal_intensity == pytest.approx(19.5e12 / 1555e9)


@pytest.mark.parametrize("name", ["NVIDIA Unheard Of", ""])
def test_of_an_unknown_gpu_nothing_is_said_to_be_memory_bound(
    bundle: Path, measured: Roof, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a(monkeypatch, bundle, name)
    row = system_row(roofed_frames(bundle, measured), None)
    assert row["intensity"] > 0
    assert (row["ideal"], row["memory_bound"]) == (None, None)


def test_tables_judge_by_the_roof_that_they_are_given(tmp_path: Path, measured: Roof) -> None:
    recorded_bundle("resnet50-32", tmp_path).rename(tmp_path / "deep-resnet50-32.bundle")
    bytes_moved = {"read_bytes": 1e9, "written_bytes": 0.0, "occupancy": 1.0}
    counted = {**bytes_moved, "flops": 13e9, "counted": 1, "kernels": 1}
    (tmp_path / "state.json").write_text(json.dumps({"counted resnet50 32": counted}))
    (tmp_path / "roof.json").write_text(json.dumps(measured.to_dict()))
    cells = [
        next(text for text in sections(tmp_path, roof) if "deeply" in text).split("|")
        for roof in (NO_ROOF, kept_roof(tmp_path / "roof.json"))
    ]
    # 13 FLOP/byte: below the datasheet's ridge of 14, above the measured one of 12.
    assert [told[told.index(" 13.0 ") + 2] for told in cells] == [" yes ", " no "]
    assert kept_roof(tmp_path / "none.json") == NO_ROOF


def test_a_device_has_the_name_of_its_number(bundle: Path) -> None:
    said = read(bundle).announcement
    assert (gpu_name(said, "gpu"), gpu_name(said, "cuda:1")) == ("NVIDIA H200", "")
