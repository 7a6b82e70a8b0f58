"""Evaluations at level full on an H200, each in one go, analysed again: every table has its rows.

ResNet-50 at batch 8, a detector and a ViT at batch 1, with counters, roofs, series and energy.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pl = pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of  # noqa: E402
from schemas.batch import SpanKind  # noqa: E402
from schemas.level import Level  # noqa: E402
from services.analyzer.analysis import Analyzed, analyze  # noqa: E402
from services.analyzer.frames.evaluation import Frames, Run  # noqa: E402
from tests.gpu.recordings import recorded_bundle  # noqa: E402
from tests.gpu.tables import NUMBERED, ROOFED, empty_in, rows_of  # noqa: E402

KERNELS = {"resnet50-full": 174, "detector": 564, "vit-b-16": 150}
"""A query's, of each model."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("full")


@pytest.fixture(params=KERNELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def frames(name: str, folder: Path) -> Frames:
    return frames_of(recorded_bundle(name, folder))


@cache
def analyzed(name: str, folder: Path) -> Analyzed:
    return analyze(frames(name, folder))


def run_at(name: str, folder: Path, level: Level) -> Run:
    return next(run for run in frames(name, folder).measured if run.row.level == level)


def test_every_numbered_table_has_rows(name: str, folder: Path) -> None:
    tables = analyzed(name, folder).tables
    assert {each.id for each in tables if each.id} == set(NUMBERED)
    assert empty_in(tables) == set()


def test_every_kernel_has_a_layer_and_counters(name: str, folder: Path) -> None:
    run = run_at(name, folder, Level.SYSTEM)
    assert run.row.level_asked == Level.FULL
    work = run.device_work.filter(pl.col("kind") == int(SpanKind.KERNEL), pl.col("query") >= 0)
    assert work.height == KERNELS[name] * run.answered.height
    assert work["layer"].null_count() == 0
    assert run.unattributed_share == 0.0
    rows = rows_of(analyzed(name, folder).tables, "A8")
    assert len(rows) == KERNELS[name]
    assert sum(row["counted"] == 1.0 for row in rows) >= 0.97 * len(rows)


def test_what_is_held_to_the_roof_tells_it(name: str, folder: Path) -> None:
    for table in ROOFED:
        rows = rows_of(analyzed(name, folder).tables, table)
        worked = [row for row in rows if row["intensity"] is not None]
        assert len(worked) >= 0.5 * len(rows) > 0
        # A kernel without operations has a roof of none.
        assert all((row["roof"] > 0) is (row["intensity"] > 0) for row in worked)
        # Float32 of an H200, measured: 51.2 TFLOP/s over 4.28 TB/s.
        assert all(row["ridge"] == pytest.approx(12.0, rel=0.05) for row in rows)
        assert {row["memory_bound"] for row in worked} <= {True, False}


def test_no_table_complains_of_the_replay(name: str, folder: Path) -> None:
    told = {caveat for table in analyzed(name, folder).tables for caveat in table.caveats}
    assert not [each for each in told if "belongs to no known layer" in each]


def test_layers_say_what_they_allocated(name: str, folder: Path) -> None:
    rows = rows_of(analyzed(name, folder).tables, "A4")
    assert {row["memory_kind"] for row in rows} == {"measured"}
    assert sum(row["memory_bytes"] for row in rows) > 1e6


def conditions(name: str, folder: Path) -> Iterator[str]:
    return (row["what"] for row in rows_of(analyzed(name, folder).tables, "device_conditions"))


def test_the_gpus_clock_is_told(name: str, folder: Path) -> None:
    assert {"clock_sm", "power", "temperature"} <= {*conditions(name, folder)}


def test_device_use_and_kernels_are_set_against_the_same_predict(name: str, folder: Path) -> None:
    (use,), (by_model,) = (rows_of(analyzed(name, folder).tables, n) for n in ("device_use", "A15"))
    assert use["latency"] == by_model["latency"] != use["predict"]
    assert use["latency_run"].endswith("-model")
    assert use["busy_share"] == pytest.approx(use["busy"] / use["latency"])
