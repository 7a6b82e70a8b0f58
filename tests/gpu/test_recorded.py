"""Bundles that an agent's workers made on an H200 (`test_sessions`), analysed again.

CUDA graphs of PyTorch (`graphs`, and `torch.compile`'s reduce-overhead); JAX
traced by CUPTI; runs at level library.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

pl = pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of  # noqa: E402
from schemas.batch import SpanKind  # noqa: E402
from schemas.level import Level  # noqa: E402
from services.agent.collectors.kineto.without_graph import NAME  # noqa: E402
from services.analyzer.analysis import Analyzed, analyze, with_eager  # noqa: E402
from services.analyzer.frames.devices import replayed_share  # noqa: E402
from services.analyzer.frames.evaluation import Frames, Run  # noqa: E402
from tests.gpu.recordings import recorded_bundle  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@cache
def frames(name: str, folder: Path) -> Frames:
    found = frames_of(recorded_bundle(name, folder))
    return replace(found, measured=with_eager(found.measured))


def run_at(name: str, folder: Path, level: Level) -> Run:
    return next(run for run in frames(name, folder).measured if run.row.level == level)


def rows_of(analyzed: Analyzed, name: str) -> int:
    return len(next(each for each in analyzed.tables if each.id == name).rows)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("library", 16), ("graph", 16), ("jax", 9)],
)
def test_every_kernel_of_a_query_has_a_layer(name: str, kernels: int, folder: Path) -> None:
    run = run_at(name, folder, Level.SYSTEM)
    work = run.device_work.filter(pl.col("kind") == int(SpanKind.KERNEL), pl.col("query") >= 0)
    assert work.height == kernels * run.answered.height
    assert work["layer"].null_count() == 0
    assert run.unattributed_share == 0.0
    assert set(work["layer"]) <= set(run.layers["layer"])


@pytest.mark.parametrize(("name", "replayed"), [("graph", 16), ("compiled-graph", 21), ("jax", 5)])
def test_a_graphs_kernels_have_the_layers_they_were_captured_from(
    name: str, replayed: int, folder: Path
) -> None:
    run = run_at(name, folder, Level.SYSTEM)
    graphs = run.device_work.filter(pl.col("method") == "graph")
    assert graphs.height == replayed * run.answered.height
    assert replayed_share(run.device_work) == 1.0
    assert rows_of(analyze(frames(name, folder)), "A11") > 5


def test_layers_of_a_graph_come_from_one_call_without_it(folder: Path) -> None:
    run = run_at("graph", folder, Level.SYSTEM)
    around = run.spans.filter(pl.col("name") == NAME)
    assert around.height == 1
    assert around["query"].to_list() == [-1]
    before = run.spans.filter(pl.col("start_ns") < around["start_ns"][0])
    alone = replace(run, spans=before, eager=None)
    assert replayed_share(alone.device_work) == 0.0
    caveats = [each for table in analyze(frames("graph", folder)).tables for each in table.caveats]
    assert any("100.0% of their kernel time has a layer" in each for each in caveats)


def test_one_kernel_made_once_belongs_to_each_layer_that_runs_it(folder: Path) -> None:
    run = run_at("jax", folder, Level.SYSTEM)
    names = dict(run.layers.select("layer", "name").iter_rows())
    shared = run.device_work.filter(
        pl.col("name") == "gemm_fusion_dot_general_4", pl.col("query") == 0
    ).sort("start_ns")
    assert [names[layer] for layer in shared["layer"]] == [
        "dense1/dot_general",
        "dense2/dot_general",
    ]


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("library", {"cudnnBackendExecute": 3, "cublasLtMatmul": 2}),
        ("jax", {"cudnnBackendExecute": 1}),
    ],
)
def test_a_run_at_level_library_has_the_calls_of_each_query(
    name: str, calls: dict[str, int], folder: Path
) -> None:
    run = run_at(name, folder, Level.LIBRARY)
    found = run.spans.filter(pl.col("level") == int(Level.LIBRARY))
    for call, count in calls.items():
        assert found.filter(pl.col("name") == call).height == count * run.answered.height
    tree = run.tree.join(found.select("span", "name"), on="span")
    assert tree["layer"].null_count() == 0
