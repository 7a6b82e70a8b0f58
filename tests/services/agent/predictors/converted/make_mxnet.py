"""Makes a small MXNet network, exports it as ONNX, and keeps what MXNet answers.

MXNet 1.9.1 still installs on Python 3.11, but beside old packages only: use an environment of its
own, and give pip the list, since their own requirements contradict each other.

    pip install --no-deps mxnet==1.9.1 numpy==1.23.5 onnx==1.14.1 protobuf==3.20.3 \
        graphviz==0.8.4 requests typing_extensions
    pip install urllib3 idna certifi chardet
    python make_mxnet.py FOLDER
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Write the ONNX file and the answers to the folder of the first argument."""
    os.chdir(Path(sys.argv[1]))
    mx: Any = import_module("mxnet")
    nn: Any = import_module("mxnet.gluon.nn")
    mx.random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # MXNet's initializers use it
    network = nn.HybridSequential()
    network.add(
        nn.Conv2D(4, 3, padding=1),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.MaxPool2D(2, 2),
        nn.Conv2D(6, 3, activation="relu"),
        nn.Flatten(),
        nn.Dense(5),
    )
    network.initialize(mx.init.Normal(0.2))
    network.hybridize()
    x = mx.nd.random.normal(shape=(2, 3, 16, 16))
    np.savez("mxnet.npz", x=x.asnumpy(), y=network(x).asnumpy())
    network.export("mxnet")
    import_module("mxnet.onnx").export_model(
        "mxnet-symbol.json",
        "mxnet-0000.params",
        [(1, 3, 16, 16)],
        [np.float32],
        "mxnet.onnx",
        dynamic=True,
        dynamic_input_shapes=[(None, 3, 16, 16)],
    )


if __name__ == "__main__":
    main()
