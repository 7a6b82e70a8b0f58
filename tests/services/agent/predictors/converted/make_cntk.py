"""Makes a small CNTK network, writes it as ONNX, and keeps what CNTK answers.

CNTK's last release is for Python 3.6 and Open MPI 1.10. Open MPI 4 (Debian 12's libopenmpi3) stands
in under the old names:

    python3.6 -m venv cntk
    cntk/bin/pip install cntk==2.7
    mkdir names
    ln -s /usr/lib/x86_64-linux-gnu/libmpi.so.40 names/libmpi.so.12
    ln -s /usr/lib/x86_64-linux-gnu/libmpi_cxx.so.40 names/libmpi_cxx.so.1
    LD_LIBRARY_PATH=names cntk/bin/python make_cntk.py FOLDER
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Write the ONNX file and the answers to the folder of the first argument."""
    os.chdir(str(Path(sys.argv[1])))
    cntk: Any = import_module("cntk")
    layers: Any = import_module("cntk.layers")
    data = cntk.input_variable((3, 16, 16), name="data")
    normal = cntk.normal(0.2, seed=1)
    network = layers.Sequential(
        [
            layers.Convolution2D((3, 3), 4, pad=True, activation=cntk.relu, init=normal),
            layers.MaxPooling((2, 2), strides=(2, 2)),
            layers.Convolution2D((3, 3), 6, activation=cntk.relu, init=normal),
            layers.Dense(5, init=normal),
        ]
    )(data)
    network = cntk.alias(network, name="scores")
    # The file has a batch of one: CNTK leaves no dimension open.
    x = np.random.RandomState(0).randn(1, 3, 16, 16).astype(np.float32)
    np.savez("cntk.npz", x=x, y=network.eval({data: x}))
    network.save("cntk.onnx", format=cntk.ModelFormat.ONNX)


if __name__ == "__main__":
    main()
