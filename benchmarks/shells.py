"""Networks that take and give ResNet-50's tensors and compute next to nothing.

What a predictor does around its framework's call depends on the tensors, not on the work inside:
here that difference is not lost in the noise of a call a thousand times as long.
"""

from typing import Any

from benchmarks import resnets

CLASSES = 1000


def onnx_graph() -> bytes:
    """Return an ONNX file: input x [batch, 3, 224, 224], output y [batch, 1000]."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    ends = (("from", [0]), ("to", [CLASSES]), ("axes", [1]))
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], "flat"),
        helper.make_node("Slice", ["flat", *(name for name, _ in ends)], ["y"], "y"),
    ]
    places = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
        for name, shape in (("x", (3, 224, 224)), ("y", (CLASSES,)))
    ]
    initializers = [
        numpy_helper.from_array(np.array(values, np.int64), name) for name, values in ends
    ]
    graph_proto = helper.make_graph(nodes, "shell", places[:1], places[1:], initializers)
    opset = [helper.make_opsetid("", 17)]
    body: bytes = helper.make_model(
        graph_proto, opset_imports=opset, ir_version=8
    ).SerializeToString()
    return body


def torch_shell() -> Any:
    """Return a PyTorch module of x [batch, 3, 224, 224]."""
    import torch

    class Shell(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)[:, :CLASSES] + 1

    return Shell()


def jax_shell(seed: int = 0) -> Any:  # noqa: ARG001
    """Return a JAX function of x [batch, 3, 224, 224]."""
    return lambda x: x.reshape(x.shape[0], -1)[:, :CLASSES] + 1


def keras_shell() -> Any:
    """Return a Keras model of x [batch, 224, 224, 3]."""
    import keras

    rows = keras.layers.Input((224, 224, 3), name="x")
    return keras.Model(rows, keras.layers.Flatten()(rows)[:, :CLASSES] + 1)


def litert_graph() -> bytes:
    """Return the Keras model as a `.tflite` file."""
    return resnets.converted(keras_shell())
