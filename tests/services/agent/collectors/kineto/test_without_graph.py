"""One call without its CUDA graph, as spans: its parts in their order, and what fails."""

import json
from collections.abc import Sequence

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Collected, CollectedSpan
from services.agent.collectors.kineto.without_graph import NAME, spans_without_graph
from services.agent.errors import PredictFailed
from services.agent.predictors import Layer, LayerCapture, Tensors

KERNEL = CollectedSpan(Level.SYSTEM, "gemm", 30, 5, 7, SpanKind.KERNEL, 1)


class Capture:
    """A capture of one call that takes note of what is done."""

    notes: Sequence[str] = ()

    def __init__(self, done: list[str], *, fails: bool = False) -> None:
        self._done, self._fails = done, fails

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the inputs."""
        self._done.append("predict")
        if self._fails:
            raise PredictFailed("no such luck")
        return inputs

    def close(self) -> list[list[Layer]]:
        """Return one layer."""
        self._done.append("close")
        return [[Layer("conv", 10, 4, 9, json.dumps({"index": 3}).encode())]]


def told(done: list[str], *, fails: bool = False) -> Collected:
    def unreplayed() -> tuple[LayerCapture, Tensors]:
        return Capture(done, fails=fails), {}

    def end() -> Collected:
        done.append("end")
        return Collected([KERNEL], 2, ("a note",))

    return spans_without_graph(unreplayed, lambda: done.append("begin"), end)


def test_layers_launches_and_kernels_lie_in_one_span() -> None:
    done: list[str] = []
    found = told(done)
    assert done == ["begin", "predict", "end", "close"]
    around, layer, kernel = found.spans
    assert (around.level, around.name) == (Level.MODEL, NAME)
    assert (layer.level, layer.name, layer.thread) == (Level.FRAMEWORK, "conv", 9)
    assert layer.attributes == {"index": 3}
    assert kernel is KERNEL
    assert (found.dropped, found.notes) == (2, ("a note",))


def test_a_call_that_fails_leaves_a_note_and_nothing_open() -> None:
    done: list[str] = []
    found = told(done, fails=True)
    assert done == ["begin", "predict", "close"]
    assert found.spans == ()
    assert "no such luck" in found.notes[0]
