"""Models of Caffe, Caffe2, CNTK and MXNet, converted to ONNX, answer as their originals.

`converted/` has the files, the answers, and the programs that made both (`make_caffe.py` and
others), which need environments of their own.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import FrameworkNeed, ModelManifest
from services.agent.predictors import LayerSource, OpenRequest, predictor_named
from tests.services.agent.builders import model_named, raw_port

CONVERTED = Path(__file__).parent / "converted"
OUTPUTS = {"caffe": "prob", "caffe2": "scores", "cntk": "scores_Output", "mxnet": "dense0_fwd"}


def converted_model(original: str, framework: str) -> ModelManifest:
    """Return a manifest as a user writes it for a converted file."""
    ports = {
        "inputs": (raw_port("data", (-1, 3, 16, 16)),),
        "outputs": (raw_port(OUTPUTS[original], (-1, 5)),),
    }
    named = {"name": original, "framework": FrameworkNeed(name=framework)}
    return model_named("identity").model_copy(update=ports | named)


@pytest.mark.parametrize("framework", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("original", OUTPUTS)
def test_a_converted_model_answers_as_its_original(original: str, framework: str) -> None:
    path = CONVERTED / f"{original}.onnx"
    answers = np.load(CONVERTED / f"{original}.npz")
    model, batch_size = converted_model(original, framework), len(answers["x"])
    options = {"threads": 1}
    request = OpenRequest(model, path, path.read_bytes(), batch_size, options=options)
    predictor = predictor_named(framework)(request)
    try:
        predicted = predictor.predict({"data": answers["x"]})
        assert isinstance(predictor, LayerSource)
    finally:
        predictor.close()
    answer: Any = predicted[OUTPUTS[original]]
    assert np.allclose(answer, answers["y"], rtol=1e-3, atol=1e-5)
