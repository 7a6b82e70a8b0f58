"""Opens and closes one model many times, in a process of its own, and says what stays.

`python -m tests.services.agent.predictors.reopening FRAMEWORK` prints a JSON map: `opened`, what
the first opening says of itself, and `resident` bytes after each close.
"""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from schemas.manifest import Assets, ModelManifest
from services.agent.machine.noise import resident_bytes
from services.agent.predictors import OpenRequest, predictor_named

ROUNDS = 8
INPUTS, OUTPUTS = 4096, 2048
WEIGHT_BYTES = 4 * INPUTS * OUTPUTS
"""Of a layer; the shipped ONNX model has about half of it."""

TOLD = (
    "framework",
    "framework_version",
    "device",
    "provider",
    "precision",
    "threads",
    "load_ns",
    "first_run_ns",
    "memory_bytes",
)

_MODELS = Path(__file__).resolve().parents[4] / "manifests" / "models"


def torch_layer() -> Any:
    """Return a PyTorch layer."""
    import torch

    return torch.nn.Linear(INPUTS, OUTPUTS)


def keras_layer() -> Any:
    """Return a Keras layer."""
    import keras

    rows = keras.layers.Input((INPUTS,), name="x")
    return keras.Model(rows, keras.layers.Dense(OUTPUTS)(rows))


def jax_layer(seed: int) -> Any:
    """Return a JAX layer and its weights."""
    import jax

    weights = jax.random.normal(jax.random.key(seed), (INPUTS, OUTPUTS))
    return (lambda parameters, x: x @ parameters), weights


def _shipped() -> OpenRequest:
    said = yaml.safe_load((_MODELS / "efficientnet_lite0.yml").read_text())
    path = _MODELS / "efficientnet_lite0" / "model.onnx"
    model = ModelManifest.model_validate(said)
    return OpenRequest(model, path, path.read_bytes(), 1, options={"threads": 1})


def _layer(framework: str, builder: str = "", graph: bytes = b"") -> OpenRequest:
    assets = Assets(builder=f"{__spec__.name}.{builder}", weights="random") if builder else Assets()
    model = ModelManifest.model_validate(
        {
            "name": "layer",
            "version": "1.0.0",
            "framework": {"name": framework},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, INPUTS]}],
            "outputs": [{"type": "raw", "layer_name": "scores"}],
            "model": assets,
        }
    )
    options = {"threads": 1}
    return OpenRequest(
        model, Path("m.tflite"), graph, 1, options=options, builders=(__spec__.name,)
    )


def _tflite() -> bytes:
    from tests.services.agent.predictors import tflite_nets

    tflite_nets.INPUTS, tflite_nets.OUTPUTS = INPUTS, OUTPUTS
    return tflite_nets.graph_of(tflite_nets.dense())


def request(framework: str) -> OpenRequest:
    """Return what a framework opens."""
    if framework in ("onnxruntime", "openvino"):
        return _shipped()
    if framework == "litert":
        return _layer(framework, graph=_tflite())
    builder = {"pytorch": "torch_layer", "tensorflow": "keras_layer", "jax": "jax_layer"}
    return _layer(framework, builder[framework])


def main(framework: str) -> None:
    """Open, predict and close, again and again."""
    asked, open_model = request(framework), predictor_named(framework)
    resident, told, closed = [], [], []
    for _ in range(ROUNDS):
        predictor = open_model(asked)
        told.append({name: getattr(predictor.opened, name) for name in TOLD})
        place = predictor.opened.inputs[0]
        shape = tuple(max(size, 1) for size in place.shape)
        predictor.predict({place.name: np.ones(shape, np.float32)})
        predictor.close()
        # Kept, so that it is close that frees, and not what Python does behind it.
        closed.append(predictor)
        gc.collect()
        resident.append(resident_bytes())
    sys.stdout.write(json.dumps({"opened": told[0], "resident": resident}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
