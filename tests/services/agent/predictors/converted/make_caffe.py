"""Makes a small Caffe network, converts it with caffe-onnx, and keeps what OpenCV answers.

OpenCV reads Caffe files itself, so that its answers do not depend on the converter. The packages
do not fit beside mlscope's: use an environment of its own (Python 3.11).

    pip install caffe-onnx==0.1.2 'opencv-python-headless<5'
    python make_caffe.py FOLDER
    caffe2onnx FOLDER/caffe.prototxt FOLDER/caffe.caffemodel caffe FOLDER
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

PROTOTXT = """name: "small"
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 1 } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1"
  batch_norm_param { use_global_stats: true } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 6 kernel_size: 3 stride: 1 } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "ip" type: "InnerProduct" bottom: "conv2" top: "ip"
  inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "conv1": [(4, 3, 3, 3), (4,)],
    "bn1": [(4,), (4,), (1,)],
    "scale1": [(4,), (4,)],
    "conv2": [(6, 4, 3, 3), (6,)],
    "ip": [(5, 216), (5,)],
}


def main() -> None:
    """Write the network, its weights and the answers to the folder of the first argument."""
    folder = Path(sys.argv[1])
    prototxt, weights = folder / "caffe.prototxt", folder / "caffe.caffemodel"
    prototxt.write_text(PROTOTXT, "utf-8")
    random = np.random.default_rng(0)
    network: Any = import_module("proto.caffe_pb2").NetParameter()
    import_module("google.protobuf.text_format").Merge(PROTOTXT, network)
    for layer in network.layer:
        for number, shape in enumerate(SHAPES.get(layer.name, ())):
            values = random.standard_normal(shape) * (0.2 if len(shape) > 1 else 1.0)
            if layer.name == "bn1" and number:
                # The variances, and the factor that both statistics are divided by.
                values = np.abs(values) + 0.5 if number == 1 else np.ones(shape)
            blob = layer.blobs.add()
            blob.shape.dim.extend(shape)
            blob.data.extend(values.ravel().tolist())
    weights.write_bytes(network.SerializeToString())
    x = random.standard_normal((1, 3, 16, 16)).astype(np.float32)
    opened: Any = import_module("cv2").dnn.readNetFromCaffe(str(prototxt), str(weights))
    opened.setInput(x)
    np.savez(folder / "caffe.npz", x=x, y=opened.forward())


if __name__ == "__main__":
    main()
