"""Layers of JAX models, from XLA's profile."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("jax")

from mlscope.tracing.clock import now_ns
from services.agent.predictors.jax.layers import instructions_in
from services.agent.predictors.jax.predictor import JaxPredictor, open_model
from services.agent.predictors.xla.layers import InstructionRun
from services.agent.predictors.xla.program import program_of
from tests.services.agent.predictors.jax.test_predictor import (
    _pool_of_one_thread,
    manifest,
    request,
)

# XLA's pool is the process's: one process has all tests of JAX.

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


PROGRAM = program_of(
    "ENTRY %main (x: f32[4]) -> f32[4] {\n  %gemm.4 = f32[4]{0} dot(%x)\n}\n", "XLA"
)


class Profile:
    """A profile that began at 1000, of one host thread and one GPU's stream."""

    def __init__(self, host: list[Any], device: list[Any]) -> None:
        lines = [[SimpleNamespace(events=each)] for each in (host, device)]
        names = ("/host:CPU", "/device:GPU:0")
        self.planes = [
            SimpleNamespace(name=name, lines=each) for name, each in zip(names, lines, strict=True)
        ]

    def find_plane_with_name(self, _: str) -> Any:
        """Return what says when it began."""
        return SimpleNamespace(stats=[("profile_start_time", 1000)])


def event(name: str, start_ns: int, **stats: str) -> Any:
    return SimpleNamespace(name=name, start_ns=start_ns, duration_ns=8, stats=list(stats.items()))


def test_of_a_gpu_layers_are_what_launches_them_on_the_calling_thread() -> None:
    host = [event("PjitFunction(f)", 0), event("gemm.4", 10), event("command_buffer.5", 20)]
    host.append(event("Handle inputs", 5))
    profile = cast("Any", Profile(host, [event("gemm_4", 50, hlo_op="gemm.4")]))
    assert instructions_in(profile, 400, PROGRAM, thread=77) == [
        InstructionRun("gemm.4", 610, 8, 77),
        InstructionRun("command_buffer.5", 620, 8, 77),
    ]


def test_without_a_program_s_text_they_are_what_ran_on_the_gpu() -> None:
    profile = cast("Any", Profile([event("gemm.4", 10)], [event("gemm_4", 50, hlo_op="gemm.4")]))
    assert instructions_in(profile, 0, program_of("", "XLA")) == [
        InstructionRun("gemm.4", 1050, 8, 2)
    ]
