"""Bundles that agents made on an H200, analysed again: ResNet-50 at batch 32, BERT-base at 16."""

import pytest

pl = pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of  # noqa: E402
from benchmarks.survey.residuals import blocks_of, residual_of  # noqa: E402
from schemas.level import Level  # noqa: E402
from services.analyzer.analysis import Analyzed, analyze  # noqa: E402
from services.analyzer.frames.evaluation import Frames, Run  # noqa: E402
from tests.gpu.recordings import recorded_bundle  # noqa: E402


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    folder = tmp_path_factory.mktemp("resnet")
    names = ("resnet50-32", "resnet50-32-counters")
    return frames_of(*(recorded_bundle(name, folder) for name in names))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return frames_of(recorded_bundle("bert-base-16", tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def analyzed(resnet: Frames) -> Analyzed:
    return analyze(resnet)


def run_at(frames: Frames, level: Level) -> Run:
    return next(run for run in frames.measured if run.row.level == level)


def rows_of(analyzed: Analyzed, name: str) -> list[dict[str, object]]:
    table = next(each for each in analyzed.tables if name in (each.id, each.name))
    return table.records()


@pytest.mark.parametrize(("name", "kernels"), [("resnet", 186), ("bert", 155)])
def test_every_kernel_lies_in_a_layer(
    name: str, kernels: int, request: pytest.FixtureRequest
) -> None:
    run = run_at(request.getfixturevalue(name), Level.SYSTEM)
    work = run.device_work.filter(pl.col("kind") == 2)
    assert work.height == kernels * run.answered.height
    assert work["layer"].null_count() == 0
    assert run.unattributed_share <= 0.005


@pytest.mark.parametrize("name", ["resnet", "bert"])
def test_the_model_is_its_layers_and_what_is_between_less_what_tracing_costs(
    name: str, request: pytest.FixtureRequest
) -> None:
    frames = request.getfixturevalue(name)
    blocks = blocks_of(run_at(frames, Level.MODEL), run_at(frames, Level.FRAMEWORK))
    found = residual_of(blocks)
    assert found is not None
    # Within 3% by one triple of blocks: these recordings are too short for an interval.
    assert (found.triples, found.interval.low) == (1, None)
    assert found.residual == pytest.approx(0.0, abs=0.03)


def test_each_kernel_takes_its_counters_from_the_replay(analyzed: Analyzed) -> None:
    kernels = rows_of(analyzed, "A8")
    assert len(kernels) == 186
    assert all(row["counted"] == 1.0 for row in kernels)
    assert len(rows_of(analyzed, "A9")) == 186
    assert len(rows_of(analyzed, "A12")) == len(rows_of(analyzed, "A11")) == 174


def test_counted_operations_are_near_the_layers_own(resnet: Frames) -> None:
    replay = run_at(resnet, Level.HARDWARE)
    counted = replay.device_work["flops"].sum()
    static = run_at(resnet, Level.SYSTEM).layers["flops"].sum()
    assert counted == pytest.approx(static, rel=0.05)


def test_every_numbered_analysis_is_there(analyzed: Analyzed) -> None:
    ids = {table.id: table for table in analyzed.tables if table.id}
    assert set(ids) == {f"A{number}" for number in range(1, 16)}
    assert all(table.rows for table in ids.values())
