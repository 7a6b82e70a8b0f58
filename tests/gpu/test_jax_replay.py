"""JAX on an H200, replayed: what XLA leaves to cuDNN has its FLOP, and is held to the roof."""

from pathlib import Path

import pytest

pytest.importorskip("polars")

from benchmarks.survey.bundles import frames_of
from schemas.analysis import Table
from services.analyzer.analysis import analyze
from tests.gpu.recordings import recorded_bundle
from tests.gpu.tables import rows_of

CONVOLUTION = 2 * (4 * 32 * 32 * 32) * (3 * 3 * 3)
"""A multiply-add for each output of `nets.scoped`'s first layer and each weight it takes."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, ...]:
    folder: Path = tmp_path_factory.mktemp("jax")
    return tuple(analyze(frames_of(recorded_bundle("jax-flops", folder))).tables)


def test_a_call_of_cudnn_has_the_flops_of_its_convolution(tables: tuple[Table, ...]) -> None:
    (told,) = [row for row in rows_of(tables, "A14") if row["type"] == "custom-call"]
    assert told["name"] == "conv/conv_general_dilated"
    assert told["flops"] == CONVOLUTION
    assert told["intensity"] == pytest.approx(12.27, abs=5e-3)


def test_every_layer_with_kernels_is_held_to_the_roof(tables: tuple[Table, ...]) -> None:
    layers = rows_of(tables, "A14")
    assert len(layers) == 9
    assert all(row["memory_bound"] is not None for row in layers)
    (model,) = rows_of(tables, "A15")
    assert model["flops"] == sum(row["flops"] for row in layers)
    assert model["memory_bound"] is True
