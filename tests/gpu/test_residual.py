"""The residual of layers, between and overhead: from blocks apart, so that it can be off."""

from typing import Any

import pytest

from benchmarks.gpu.tables import residual
from services.analyzer.frames import Run
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import query, span


def _run(level: int, predict_ns: tuple[int, ...], layer_ns: int = 0) -> Run:
    spans: list[Any] = []
    for n, ns in enumerate(predict_ns):
        spans.append(span(10 * n, 2, "predict", ns, of=n))
        if layer_ns:
            spans.append(span(10 * n + 1, 3, "conv", layer_ns, of=n, layer=0))
    queries = [query(n, 1000 * n, 1000 * n + 900, block=n) for n in range(len(predict_ns))]
    told = {"run": "r", "level": level, "queries": queries, "spans": spans}
    return frames_in({"runs": [told]}).measured[0]


def test_what_repeats_leaves_no_residual() -> None:
    assert residual(_run(2, (100, 100)), _run(3, (120, 120), 90)) == 0.0


@pytest.mark.parametrize(
    ("model", "layered", "off"),
    [((150, 100), (120, 120), 0.5), ((100, 100), (120, 140), 0.2)],
    ids=["M of other blocks is wrong", "L of other blocks is wrong"],
)
def test_a_figure_that_does_not_repeat_is_a_residual(
    model: tuple[int, ...], layered: tuple[int, ...], off: float
) -> None:
    assert residual(_run(2, model), _run(3, layered, 90)) == pytest.approx(off)


def test_one_block_cannot_tell() -> None:
    assert residual(_run(2, (100,)), _run(3, (120,), 90)) is None
