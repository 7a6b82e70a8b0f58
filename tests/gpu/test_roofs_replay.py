"""An H200's roof as an agent measured it there, in the tables of what ran below it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of
from schemas.level import Level
from services.agent.machine.datasheets import gpu_datasheet, with_datasheet_figures
from services.agent.machine.roofline.ceilings import Roof
from services.analyzer.analysis import Analyzed, analyze
from services.analyzer.frames.evaluation import Frames, Run
from tests.gpu.recordings import recorded, recorded_bundle

ROOFED = ("A9", "A14", "A15", "roof_distance")


@pytest.fixture(scope="module")
def roof() -> Roof:
    found = Roof.from_dict(recorded("roof_h200.json"))
    return with_datasheet_figures(found, gpu_datasheet(found.device))


@pytest.fixture(scope="module")
def bfloat16(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    """Return ResNet-50 in bfloat16, without counters; its agent told the roof itself."""
    folder = tmp_path_factory.mktemp("bf16")
    return analyze(frames_of(recorded_bundle("resnet50-32-bfloat16", folder)))


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory, roof: Roof) -> Analyzed:
    """Return ResNet-50 in float32 with counters, from before agents told a roof: it is given."""
    folder = tmp_path_factory.mktemp("counted")
    names = ("resnet50-32", "resnet50-32-counters")
    frames = frames_of(*(recorded_bundle(name, folder) for name in names))
    return analyze(roofed(frames, roof))


def roofed(frames: Frames, roof: Roof) -> Frames:
    """Return frames whose runs of layers were told a roof, as `Measurement` tells it."""
    runs = tuple(_roofed(run, roof) for run in frames.measured)
    return replace(frames, measured=runs, attempts=tuple(run.row for run in runs))


def _roofed(run: Run, roof: Roof) -> Run:
    known = run.row.conditions
    picked = roof.for_run(str(known["precision"]), int(known["threads"])).ceilings
    told = {name: each.model_dump() for name, each in picked.items()}
    if run.row.level < Level.FRAMEWORK:
        return run
    return replace(run, row=replace(run.row, conditions={**known, **told}))


def rows_of(analyzed: Analyzed, name: str) -> list[dict[str, Any]]:
    table = next(each for each in analyzed.tables if name in (each.id, each.name))
    return table.records()


@pytest.mark.parametrize("name", ROOFED)
@pytest.mark.parametrize("of", ["bfloat16", "counted"])
def test_no_row_is_without_its_roof(of: str, name: str, request: pytest.FixtureRequest) -> None:
    analyzed = request.getfixturevalue(of)
    rows = rows_of(analyzed, name)
    assert rows
    columns = {"roof_distance": ["least_time", "of_roof", "datasheet_time", "of_datasheet"]}
    told = columns.get(name, ["roof", "ridge", "memory_bound"])
    assert all(row[column] is not None for row in rows for column in told)


def test_a_run_is_below_the_roof_of_its_precision(bfloat16: Analyzed, counted: Analyzed) -> None:
    ridges = {rows_of(each, "A15")[0]["ridge"]: each for each in (bfloat16, counted)}
    (half, whole) = sorted(ridges, reverse=True)
    assert half == pytest.approx(794e12 / 4.28e12, rel=0.01)
    assert whole == pytest.approx(51.2e12 / 4.28e12, rel=0.01)


def test_the_model_is_set_against_the_roof_by_predict(bfloat16: Analyzed) -> None:
    model, *layers = rows_of(bfloat16, "roof_distance")
    assert (model["name"], model["run"]) == ("(all layers)", "b32-online-model")
    # ResNet-50: 4.09 GMAC a picture, and its other operators.
    assert model["flops"] == pytest.approx(2 * 4.1e9 * 32, rel=0.02)
    assert model["time"] > sum(row["time"] for row in layers)
    assert model["of_peak"] == pytest.approx(
        model["flops"] / model["time"] * 1e9 / 794e12, rel=0.01
    )
    assert model["of_datasheet"] < model["of_roof"] < 1.0


def test_whether_it_was_counted_is_told(bfloat16: Analyzed, counted: Analyzed) -> None:
    sources = [rows_of(each, "A15")[0]["source"] for each in (bfloat16, counted)]
    assert sources == ["static", "counters"]
    (a9,) = (each for each in bfloat16.tables if each.id == "A9")
    assert "by shapes, not by counters" in a9.verdict
    assert any("shown are 96 of 349 kernels, those alone in a layer" in each for each in a9.caveats)


@pytest.mark.parametrize("name", ["resnet50", "bert-base", "detector"])
def test_what_an_agent_recorded_is_held_to_the_roof_it_measured(name: str, tmp_path: Path) -> None:
    analyzed = analyze(frames_of(recorded_bundle(f"h200-{name}", tmp_path)))
    for table in ("A9", "A14", "A15"):
        worked = [row for row in rows_of(analyzed, table) if row["intensity"]]
        assert worked
        assert all(row["roof"] and row["ridge"] and row["of_roof"] for row in worked)
    (model,) = rows_of(analyzed, "A15")
    assert model["ridge"] == pytest.approx(12.0, rel=0.05)
    assert 0.3 < model["of_roof"] < 0.8
    whole, *_ = rows_of(analyzed, "roof_distance")
    assert 0.3 < whole["of_roof"] < model["of_roof"] + 0.2
