"""Layers of JAX models, from XLA's profile."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from mlscope.tracing.clock import now_ns
from services.agent.predictors.jax import JaxPredictor, open_model
from tests.services.agent.predictors.test_jax import _pool_of_one_thread, manifest, request

# XLA's pool is the process's: one process has all tests of JAX.
pytestmark = pytest.mark.xdist_group("jax")

__all__ = ["_pool_of_one_thread"]

ROWS = {"x": np.random.default_rng(1).standard_normal((2, 6), np.float32)}


@pytest.fixture
def scoped(tmp_path: Path) -> Iterator[JaxPredictor]:
    predictor = open_model(request(manifest("scoped"), scratch=tmp_path))
    yield predictor
    predictor.close()


def test_layers_are_named_by_the_model_s_scopes(scoped: JaxPredictor) -> None:
    capture = scoped.layers([ROWS])
    stamps = []
    for _ in range(3):
        began = now_ns()
        capture.predict(ROWS)
        stamps.append((began, now_ns()))
    calls = capture.close()
    for (began, ended), call in zip(stamps, calls, strict=True):
        scopes = [layer.name.partition("/")[0] for layer in call]
        assert {"encode", "score"} <= set(scopes)
        assert scopes[-1] == "score"
        assert began <= call[0].start_ns
        assert call[-1].start_ns + call[-1].duration_ns <= ended
        assert [json.loads(each.attributes)["index"] for each in call] == list(range(len(call)))
    flops = [json.loads(each.attributes).get("flops") or 0 for each in calls[0]]
    assert sum(flops) >= 2 * 2 * 6 * 16 + 2 * 2 * 16 * 4


def test_a_capture_changes_no_answer_and_leaves_no_file(
    scoped: JaxPredictor, tmp_path: Path
) -> None:
    expected = scoped.predict(ROWS)["scores"].copy()
    for _ in range(2):
        capture = scoped.layers([ROWS])
        assert np.array_equal(capture.predict(ROWS)["scores"], expected)
        capture.close()
    assert np.array_equal(scoped.predict(ROWS)["scores"], expected)
    assert list(tmp_path.iterdir()) == []


def test_a_first_run_is_traced_without_a_text(scoped: JaxPredictor) -> None:
    capture = scoped.layers(())
    capture.predict(ROWS)
    (call,) = capture.close()
    assert len(call) >= 2
