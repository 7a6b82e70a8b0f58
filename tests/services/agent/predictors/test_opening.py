"""What opening a model costs, and how a first run that fails is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import ModelManifest
from services.agent.errors import AgentError, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.opening import Opening

GREW_BYTES = 64 << 20


class Model:
    """The identity, or what `fails`; its first run keeps memory."""

    def __init__(self, first: int = -1, fails: str = "") -> None:
        inputs = (TensorPlace("x", (first, 3), "float32"),)
        self.opened = Opened("none", "1", inputs, (), "cpu", "", "float32", 1, {})
        self.fails = fails
        self.kept: Any = None
        self.seen: list[Tensors] = []
        self.closed = 0

    def predict(self, inputs: Tensors) -> Tensors:
        """Return what came."""
        if self.fails:
            raise PredictFailed(self.fails)
        self.kept = np.ones(GREW_BYTES // 8)
        self.seen.append(inputs)
        return inputs

    def close(self) -> None:
        """Count how often."""
        self.closed += 1


def opening(batch_size: int = 2) -> Opening:
    model = ModelManifest.model_validate(
        {
            "name": "net",
            "version": "1.0.0",
            "framework": {"name": "none"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 3]}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
        }
    )
    return Opening(OpenRequest(model, Path(), b"", batch_size))


def test_the_first_run_is_of_zeros_and_its_cost_is_told() -> None:
    model, began = Model(), opening()
    began.mark_loaded()
    outputs = began.run_first(model)
    assert outputs["x"].tolist() == [[0, 0, 0]] * 2
    assert model.opened.load_ns > 0 < model.opened.first_run_ns
    assert model.opened.memory_bytes >= GREW_BYTES // 2
    assert not model.closed


def test_a_model_s_own_inputs_may_be_given() -> None:
    model, given = Model(), {"x": np.ones((1, 3), np.float32)}
    assert opening().run_first(model, given) is given


def test_a_model_that_could_not_run_yet_says_no_time_for_it() -> None:
    model, began = Model(), opening()
    began.mark_loaded()
    began.record_costs(model)
    assert (model.opened.first_run_ns, model.opened.load_ns > 0) == (0, True)


def test_a_predictor_written_for_release_0_1_still_works() -> None:
    model, began = Model(), opening()
    began.loaded()
    began.ran(model, 7)
    assert (model.opened.first_run_ns, model.opened.load_ns > 0) == (7, True)


def test_the_errors_of_files_have_their_names_of_release_0_1_too() -> None:
    from services.agent.errors import (
        AssetError,
        AssetMissing,
        AssetUnchecked,
        AssetUnusable,
        AssetUnverified,
        ChecksumMismatch,
        PathEscapes,
    )

    assert str(AssetMissing("net.onnx", "no such file")) == "asset net.onnx: no such file"
    for error in (AssetUnchecked, AssetUnusable, AssetUnverified, ChecksumMismatch, PathEscapes):
        assert issubclass(error, AssetError)


@pytest.mark.parametrize(
    ("first", "batch_size", "error"),
    [(-1, 2, OpenFailed), (1, 1, OpenFailed), (1, 2, BatchSizeUnsupported)],
)
def test_a_model_that_fails_is_closed(first: int, batch_size: int, error: type[AgentError]) -> None:
    model = Model(first, fails="no memory")
    with pytest.raises(error) as raised:
        opening(batch_size).run_first(model)
    assert model.closed == 1
    if error is OpenFailed:
        assert "no memory" in str(raised.value)


def test_other_facts_stay() -> None:
    model = Model()
    model.opened = replace(model.opened, provider="wires", device_memory_bytes=7)
    opening().run_first(model)
    assert (model.opened.provider, model.opened.device_memory_bytes) == ("wires", 7)
