"""Make model.onnx: three convolutions, a pool and a layer of ten, with random weights from a seed.

Small enough for a test that needs layers and not sense. Usage: python make.py [TARGET].
"""

import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

SEED = 1
CHANNELS = (3, 8, 16, 32)
STRIDES = (1, 2, 2)
CLASSES = 10


def random_weight(name: str, random: np.random.Generator, *shape: int) -> onnx.TensorProto:
    """Return a normal tensor scaled by its fan-in, as He et al. (2015) do before a ReLU."""
    deviation = np.sqrt(2 / np.prod(shape[1:]))
    return numpy_helper.from_array((random.normal(0, deviation, shape)).astype(np.float32), name)


def tiny_cnn() -> onnx.ModelProto:
    """Return the model: `images` float32 [N, 3, 32, 32] to `scores` [N, 10]."""
    random = np.random.Generator(np.random.PCG64(SEED))
    nodes, weights, flow = [], [], "images"
    for i, stride in enumerate(STRIDES):
        conv, relu = f"conv{i + 1}", f"relu{i + 1}"
        weights.append(random_weight(f"{conv}.weight", random, CHANNELS[i + 1], CHANNELS[i], 3, 3))
        shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [stride, stride]}
        nodes.append(helper.make_node("Conv", [flow, f"{conv}.weight"], [conv], conv, **shape))
        nodes.append(helper.make_node("Relu", [conv], [relu], relu))
        flow = relu
    weights.append(random_weight("fc.weight", random, CLASSES, CHANNELS[-1]))
    nodes += [
        helper.make_node("GlobalAveragePool", [flow], ["pool"], "pool"),
        helper.make_node("Flatten", ["pool"], ["flatten"], "flatten", axis=1),
        helper.make_node("Gemm", ["flatten", "fc.weight"], ["scores"], "fc", transB=1),
    ]
    images = helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["batch", 3, 32, 32])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["batch", CLASSES])
    graph = helper.make_graph(nodes, "tiny-cnn", [images], [scores], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def main(target: Path) -> None:
    """Write `target` and print its checksum."""
    model = tiny_cnn()
    onnx.checker.check_model(model, full_check=True)
    target.write_bytes(model.SerializeToString(deterministic=True))
    print(f"sha256:{sha256(target.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("model.onnx"))
