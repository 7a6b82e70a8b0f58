"""Frameworks by the names that people type."""

from typing import Any

import pytest

from mlscope.manifests.variants import variant_for
from schemas.manifest import FrameworkManifest, ModelManifest
from schemas.request import Evaluate
from schemas.values.framework_names import ALIASES, predictors_name
from services.agent.predictors import SHIPPED

TYPED = {
    "tflite": "litert",
    "TensorFlow-Lite": "litert",
    "onnx": "onnxruntime",
    " ort ": "onnxruntime",
    "torch": "pytorch",
    "tf": "tensorflow",
    "jax": "jax",
    "my-own": "my-own",
}


@pytest.mark.parametrize("typed", TYPED)
def test_a_request_and_manifests_mean_the_predictor(typed: str) -> None:
    name = TYPED[typed]
    request = Evaluate.model_validate({"model": "m", "framework": f"{typed}:>=1"})
    assert request.framework is not None
    assert (request.framework.name, request.framework.version) == (name, ">=1")
    assert FrameworkManifest(name=typed, version="1").name == name


def test_a_model_for_several_frameworks_is_found_by_any_name() -> None:
    document: dict[str, Any] = {
        "name": "m",
        "version": "1.0.0",
        "framework": {"name": "onnx"},
        "frameworks": [{"name": "tflite"}],
        "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 6]}],
        "outputs": [{"type": "raw", "layer_name": "scores"}],
    }
    model = ModelManifest.model_validate(document)
    names = {
        typed: variant_for(model, typed).framework.name for typed in ("ort", "tensorflow-lite")
    }
    assert names == {"ort": "onnxruntime", "tensorflow-lite": "litert"}


def test_every_alias_is_of_a_shipped_predictor_and_none_is_one() -> None:
    assert set(ALIASES.values()) <= set(SHIPPED)
    assert not set(ALIASES) & set(SHIPPED)
    assert all(predictors_name(name) == name for name in SHIPPED)
