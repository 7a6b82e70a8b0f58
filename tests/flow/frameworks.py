"""A network of three frameworks: four numbers come out as they went in."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.flow.clusters import SHIPPED
from tests.flow.manifests import model
from tests.services.agent.predictors.tflite_nets import Dense, graph_of

FRAMEWORKS = ("onnxruntime", "openvino", "litert")


def written_model(folder: Path) -> Path:
    """Write a model of three frameworks with its files into a folder; return its manifest."""
    shutil.copy(SHIPPED / "models" / "identity" / "model.onnx", folder)
    identity = Dense(np.eye(4, dtype=np.float32), np.zeros(4, np.float32))
    (folder / "model.tflite").write_bytes(graph_of(identity))
    onnx: dict[str, Any] = {"graph_path": "model.onnx"}
    litert = {"model": {"graph_path": "model.tflite"}, "layer_names": {"y": "scores"}}
    manifest = model("identity") | {
        "name": "three-frameworks",
        "framework": "onnxruntime",
        "model": onnx,
        "frameworks": [{"name": "openvino", "model": onnx}, {"name": "litert", **litert}],
    }
    path = folder / "three.yml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False))
    return path
