"""ONNX Runtime's CUDA provider on an H200, replayed: copies apart, and every kernel in a layer."""

from pathlib import Path

import pytest

pl = pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of  # noqa: E402
from schemas.analysis import Table  # noqa: E402
from schemas.batch import SpanKind  # noqa: E402
from schemas.level import Level  # noqa: E402
from services.analyzer.analysis import analyze  # noqa: E402
from services.analyzer.frames.evaluation import Frames, Run  # noqa: E402
from tests.gpu.recordings import recorded_bundle  # noqa: E402
from tests.gpu.tables import NUMBERED, empty_in, rows_of  # noqa: E402

KERNELS = 144
"""A query's."""


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    folder: Path = tmp_path_factory.mktemp("onnxruntime")
    return frames_of(recorded_bundle("onnxruntime", folder))


@pytest.fixture(scope="module")
def tables(frames: Frames) -> tuple[Table, ...]:
    return tuple(analyze(frames).tables)


def run_at(frames: Frames, level: Level) -> Run:
    return next(run for run in frames.measured if run.row.level == level)


def test_every_kernel_of_a_query_has_a_layer(frames: Frames) -> None:
    run = run_at(frames, Level.SYSTEM)
    work = run.device_work.filter(pl.col("kind") == int(SpanKind.KERNEL), pl.col("query") >= 0)
    assert work.height == KERNELS * run.answered.height
    assert work["layer"].null_count() == 0
    assert run.unattributed_share == 0.0


def test_kernels_of_the_replay_have_counters(tables: tuple[Table, ...]) -> None:
    rows = rows_of(tables, "A8")
    assert len(rows) == KERNELS
    assert all(row["counted"] == 1.0 for row in rows)


def test_a_run_at_level_library_has_the_calls_of_cudnn(frames: Frames) -> None:
    run = run_at(frames, Level.LIBRARY)
    names = run.spans.filter(pl.col("level") == int(Level.LIBRARY))["name"]
    print(names.value_counts())  # noqa: T201
    assert names.str.starts_with("cudnn").any()


def test_copies_are_told_apart_and_page_locked(tables: tuple[Table, ...]) -> None:
    (conditions, *_) = rows_of(tables, "conditions")
    assert conditions["copies"] == "apart"
    assert conditions["host_memory"] == conditions["output_memory"] == "page-locked"
    parts = {row["part"]: row for row in rows_of(tables, "copies") if row["level"] == "model"}
    assert parts.keys() == {"copy_in", "compute", "copy_out"}


def test_every_numbered_analysis_has_rows(tables: tuple[Table, ...]) -> None:
    assert {table.id for table in tables if table.id} == set(NUMBERED)
    assert empty_in(tables) == set()
