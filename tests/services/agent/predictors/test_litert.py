"""LiteRT on models of one layer."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from schemas.level import Level
from schemas.manifest import ModelManifest
from services.agent.errors import (
    BadOption,
    BatchSizeUnsupported,
    OpenFailed,
    PredictFailed,
)
from services.agent.predictors import OpenRequest, Predictor, predictor_named
from services.agent.predictors.litert import open_model
from tests.services.agent.predictors.tflite_nets import INPUTS, dense, graph_of


def manifest(names: tuple[str, str] = ("x", "scores")) -> ModelManifest:
    return ModelManifest.model_validate(
        {
            "name": "dense",
            "version": "1.0.0",
            "framework": {"name": "litert"},
            "inputs": [{"type": "raw", "layer_name": names[0], "shape": [-1, INPUTS]}],
            "outputs": [{"type": "raw", "layer_name": names[1]}],
        }
    )


def request(batch_size: int = 3, graph: bytes | None = None, **more: Any) -> OpenRequest:
    model = more.pop("model", None) or manifest()
    options = {"threads": 1, **more.pop("options", {})}
    body = graph_of(dense()) if graph is None else graph
    return OpenRequest(model, Path("m.tflite"), body, batch_size, options=options, **more)


@pytest.fixture
def opened() -> Iterator[Predictor]:
    predictor = open_model(request())
    yield predictor
    predictor.close()


def batch(size: int = 3, seed: int = 1) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((size, INPUTS), np.float32)}


def plain(inputs: dict[str, Any]) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=graph_of(dense()))
    return interpreter.get_signature_runner()(**inputs)["scores"]


def test_it_is_found_by_name() -> None:
    assert predictor_named("litert")(request()).opened.framework == "litert"


def test_predictions_are_those_of_the_bare_interpreter(opened: Predictor) -> None:
    for seed in range(3):
        inputs = batch(seed=seed)
        found = opened.predict(inputs)["scores"]
        assert np.allclose(found, plain(inputs), atol=1e-6)
        assert np.allclose(found, dense().answer(inputs["x"]), atol=1e-5)


def test_an_array_may_change_between_calls(opened: Predictor) -> None:
    inputs = batch()
    before = opened.predict(inputs)["scores"].copy()
    inputs["x"][:] = batch(seed=2)["x"]
    after = opened.predict(inputs)["scores"]
    assert not np.allclose(before, after)
    assert np.allclose(after, plain(batch(seed=2)), atol=1e-6)


def test_without_xnnpack_it_answers_alike() -> None:
    predictor = open_model(request(options={"xnnpack": False}))
    assert predictor.opened.provider == "built-in kernels"
    assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-5)


def test_what_was_opened_is_said(opened: Predictor) -> None:
    told = opened.opened
    found = (told.device, told.provider, told.precision, told.threads, told.deepest_level)
    assert found == ("cpu", "XNNPACK", "float32", 1, Level.MODEL)
    assert [(each.name, each.shape) for each in told.inputs] == [("x", (-1, INPUTS))]
    assert min(told.load_ns, told.first_run_ns) > 0


def test_the_manifest_names_what_the_file_does_not() -> None:
    model = manifest(("rows", "probabilities"))
    predictor = open_model(request(model=model, graph=graph_of(dense(), signed=False)))
    answer = predictor.predict({"rows": batch()["x"]})
    assert np.allclose(answer["probabilities"], plain(batch()), atol=1e-6)


def test_a_batch_that_a_converter_fixed_is_resized() -> None:
    predictor = open_model(request(batch_size=3, graph=graph_of(dense(), first=1)))
    assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-6)


@pytest.mark.parametrize("xnnpack", [True, False])
@pytest.mark.parametrize("form", [{"first": 2}, {"first": 1, "reshaped": True}])
def test_a_batch_the_model_cannot_take_is_refused(form: dict[str, Any], xnnpack: bool) -> None:
    with pytest.raises(BatchSizeUnsupported, match="batch size 3"):
        open_model(request(graph=graph_of(dense(), **form), options={"xnnpack": xnnpack}))


@pytest.mark.parametrize("graph", [b"", b"nonsense" * 9])
def test_what_is_no_model_is_refused(graph: bytes) -> None:
    with pytest.raises(OpenFailed, match="dense"):
        open_model(request(graph=graph))


@pytest.mark.parametrize("options", [{"threads": 0}, {"xnnpack": 1}, {"precision": "float32"}])
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        open_model(request(options=options))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BadOption, match="cpu"):
        open_model(request(device="gpu"))


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": np.zeros((3, INPUTS + 1), np.float32)},
        {"x": np.zeros((3, INPUTS), np.float64)},
        {"y": np.zeros((3, INPUTS), np.float32)},
    ],
)
def test_wrong_inputs_are_an_error_and_the_next_call_is_right(
    opened: Predictor, inputs: dict[str, Any]
) -> None:
    with pytest.raises(PredictFailed):
        opened.predict(inputs)
    assert np.allclose(opened.predict(batch())["scores"], plain(batch()), atol=1e-6)


def test_closing_frees_the_interpreter() -> None:
    predictor = open_model(request())
    interpreter = weakref.ref(predictor._interpreter)
    assert interpreter() is not None
    predictor.close()
    gc.collect()
    assert interpreter() is None
