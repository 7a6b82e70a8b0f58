"""Makes a small Caffe2 network, writes it as ONNX, and keeps what Caffe2 answers.

Packages of PyTorch 1.4 have Caffe2 in them, for Python 3.7 and older:

    python3.7 -m venv caffe2
    caffe2/bin/pip install torch==1.4.0 onnx==1.6.0 'protobuf<3.21' future
    caffe2/bin/python make_caffe2.py FOLDER
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def network_of(brew: Any, model: Any) -> Any:
    """Add the layers to a Caffe2 model and return the name of the output."""
    model.net.Proto().name = "small"
    x = brew.conv(model, "data", "conv1", dim_in=3, dim_out=4, kernel=3, pad=1)
    x = brew.max_pool(model, brew.relu(model, x, x), "pool1", kernel=2, stride=2)
    x = brew.conv(model, x, "conv2", dim_in=4, dim_out=6, kernel=3)
    x = brew.fc(model, brew.relu(model, x, x), "scores", dim_in=6 * 6 * 6, dim_out=5)
    model.net.AddExternalOutput(x)
    return x


def main() -> None:
    """Write the ONNX file and the answers to the folder of the first argument."""
    os.chdir(str(Path(sys.argv[1])))
    import_module("onnx")  # Imported after Caffe2, its checker ends the process.
    workspace: Any = import_module("caffe2.python.workspace")
    frontend: Any = import_module("caffe2.python.onnx.frontend")
    model = import_module("caffe2.python.model_helper").ModelHelper(name="small")
    output = network_of(import_module("caffe2.python.brew"), model)
    x = np.random.RandomState(0).randn(2, 3, 16, 16).astype(np.float32)
    workspace.FeedBlob("data", x)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    np.savez("caffe2.npz", x=x, y=workspace.FetchBlob(output))
    # The frontend takes weights that are given, not drawn anew.
    weights = import_module("caffe2.python.core").Net("weights")
    for name in map(str, model.params):
        value = workspace.FetchBlob(name)
        weights.GivenTensorFill([], name, shape=value.shape, values=value)
    shapes = {"data": (1, x.shape)}
    converted = frontend.caffe2_net_to_onnx_model(model.net.Proto(), weights.Proto(), shapes)
    Path("caffe2.onnx").write_bytes(converted.SerializeToString())


if __name__ == "__main__":
    main()
