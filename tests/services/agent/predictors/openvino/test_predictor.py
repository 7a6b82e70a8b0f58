"""OpenVINO on the shipped models."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

pytest.importorskip("openvino")

from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import OpenRequest, Predictor, predictor_named
from services.agent.predictors.openvino.predictor import open_model
from tests.services.agent.predictors.onnxruntime.test_predictor import fixed_batch, images, request


def plain(inputs: dict[str, Any]) -> Any:
    session = ort.InferenceSession(request().graph, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def test_it_is_found_by_name() -> None:
    assert predictor_named("openvino")(request()).opened.framework == "openvino"


def test_predictions_are_those_of_onnx_runtime(tiny: Predictor) -> None:
    for seed in range(3):
        inputs = images(2, seed)
        assert np.allclose(tiny.predict(inputs)["scores"], plain(inputs), atol=1e-5)


def test_an_array_may_change_between_calls(tiny: Predictor) -> None:
    inputs = images(2)
    before = tiny.predict(inputs)["scores"].copy()
    inputs["images"][:] = images(2, seed=2)["images"]
    after = tiny.predict(inputs)["scores"]
    assert not np.allclose(before, after)
    assert np.allclose(after, plain(inputs), atol=1e-5)


def test_what_was_opened_is_said(tiny: Predictor) -> None:
    told = tiny.opened
    assert (told.device, told.provider, told.precision, told.threads) == (
        "cpu",
        "CPU",
        "float32",
        1,
    )
    assert (told.inputs[0].shape, told.inputs[0].element_type) == ((-1, 3, 32, 32), "float32")
    assert min(told.load_ns, told.first_run_ns) > 0


@pytest.mark.parametrize(
    "options", [{"threads": -1}, {"precision": "int4"}, {"performance_hint": "x"}, {"speed": 1}]
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        open_model(request(options=options))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BadOption, match="cpu"):
        open_model(request(device="npu"))


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(OpenFailed, match="tiny-cnn"):
        open_model(OpenRequest(request().model, Path("m.onnx"), b"nonsense", 1))


def test_inputs_of_another_shape_are_an_error(tiny: Predictor) -> None:
    with pytest.raises(PredictFailed):
        tiny.predict({"images": np.zeros((2, 3, 5, 5), np.float32)})


def test_a_batch_the_model_cannot_take_is_refused() -> None:
    fixed = fixed_batch(request("identity").graph)
    model = request("identity").model
    with pytest.raises(BatchSizeUnsupported):
        open_model(OpenRequest(model, Path("m.onnx"), fixed, 7))
