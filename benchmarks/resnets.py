"""ResNet-50 with random weights, for frameworks that bring none.

v1.5 (the stride is in the 3 x 3 convolution), batch norm folded into biases, 224 x 224, 1,000
classes. What a benchmark of calls needs is the shape of its work, not its answers.
"""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_BLOCKS = (3, 4, 6, 3)
_EXPANSION, _FIRST, _CLASSES = 4, 64, 1000


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution: channels in and out, kernel and stride, both square."""

    inputs: int
    outputs: int
    kernel: int
    stride: int = 1

    def weights(self, random: np.random.Generator) -> tuple[Any, Any]:
        """Return a kernel (outputs, inputs, k, k) that keeps the size of values, and biases."""
        shape = (self.outputs, self.inputs, self.kernel, self.kernel)
        scale = np.sqrt(1 / (self.inputs * self.kernel**2))
        kernel = random.standard_normal(shape, np.float32) * np.float32(scale)
        return kernel, np.zeros(self.outputs, np.float32)


@dataclass(frozen=True, slots=True)
class Block:
    """Three convolutions, and what the input goes through on its way around them."""

    main: tuple[Convolution, Convolution, Convolution]
    around: Convolution | None


def blocks() -> Iterator[Block]:
    """Yield the bottleneck blocks in order."""
    before = _FIRST
    for stage, count in enumerate(_BLOCKS):
        width = _FIRST << stage
        for number in range(count):
            stride = 2 if stage and not number else 1
            main = (
                Convolution(before, width, 1),
                Convolution(width, width, 3, stride),
                Convolution(width, width * _EXPANSION, 1),
            )
            after = width * _EXPANSION
            yield Block(main, None if number else Convolution(before, after, 1, stride))
            before = after


class _Graph:
    """An ONNX graph under way."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(1)

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, values: Any) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def convolved(self, value: str, convolution: Convolution) -> str:
        kernel, bias = (self.constant(array) for array in convolution.weights(self._random))
        sides = [convolution.kernel // 2] * 4
        return self.add("Conv", value, kernel, bias, strides=[convolution.stride] * 2, pads=sides)


def onnx_graph() -> bytes:
    """Return it as an ONNX file: input x [batch, 3, 224, 224], output y [batch, 1000]."""
    from onnx import TensorProto, helper

    graph = _Graph()
    value = graph.add("Relu", graph.convolved("x", Convolution(3, _FIRST, 7, 2)))
    value = graph.add("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for block in blocks():
        around = value if block.around is None else graph.convolved(value, block.around)
        for number, convolution in enumerate(block.main):
            value = graph.convolved(value, convolution)
            value = graph.add("Relu", value) if number < 2 else value
        value = graph.add("Relu", graph.add("Add", value, around))
    value = graph.add("Flatten", graph.add("GlobalAveragePool", value))
    random = np.random.default_rng(2)
    last = random.standard_normal((2048, _CLASSES), np.float32) / np.float32(45)
    graph.nodes.append(helper.make_node("MatMul", [value, graph.constant(last)], ["y"], "y"))
    places = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
        for name, shape in (("x", (3, 224, 224)), ("y", (_CLASSES,)))
    ]
    graph_proto = helper.make_graph(graph.nodes, "resnet50", places[:1], places[1:], graph.weights)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph_proto, opset_imports=opset, ir_version=8)
    body: bytes = model.SerializeToString()
    return body


def jax_network(seed: int = 0) -> Any:
    """Return a JAX function of x [batch, 3, 224, 224] and its parameters."""
    import jax
    from jax import lax

    random = np.random.default_rng(seed)
    convolutions = [Convolution(3, _FIRST, 7, 2)]
    for block in blocks():
        convolutions += [*block.main, *([block.around] if block.around else [])]
    parameters = {
        "convolutions": [convolution.weights(random) for convolution in convolutions],
        "last": random.standard_normal((2048, _CLASSES), np.float32) / np.float32(45),
    }

    def convolved(weights: Iterator[Any], value: Any, convolution: Convolution) -> Any:
        kernel, bias = next(weights)
        side = convolution.kernel // 2
        strides, pads = (convolution.stride,) * 2, [(side, side)] * 2
        output = lax.conv_general_dilated(value, kernel, strides, pads)
        return output + bias[None, :, None, None]

    def apply(parameters: Any, x: Any) -> Any:
        weights = iter(parameters["convolutions"])
        value = jax.nn.relu(convolved(weights, x, convolutions[0]))
        window, strides = (1, 1, 3, 3), (1, 1, 2, 2)
        pads = ((0, 0), (0, 0), (1, 1), (1, 1))
        value = lax.reduce_window(value, -np.inf, lax.max, window, strides, pads)
        for block in blocks():
            first, second, third = block.main
            inner = jax.nn.relu(convolved(weights, value, first))
            inner = jax.nn.relu(convolved(weights, inner, second))
            inner = convolved(weights, inner, third)
            around = value if block.around is None else convolved(weights, value, block.around)
            value = jax.nn.relu(inner + around)
        return value.mean((2, 3)) @ parameters["last"]

    return apply, parameters


def torch_network() -> Any:
    """Return it as a PyTorch module, for where torchvision is not."""
    import torch
    from torch import nn

    def convolved(convolution: Convolution) -> Any:
        return nn.Conv2d(
            convolution.inputs,
            convolution.outputs,
            convolution.kernel,
            convolution.stride,
            convolution.kernel // 2,
        )

    class Bottleneck(nn.Module):
        def __init__(self, block: Block) -> None:
            super().__init__()
            self.main = nn.ModuleList(convolved(convolution) for convolution in block.main)
            self.around = convolved(block.around) if block.around else nn.Identity()

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            first, second, third = self.main
            inner = third(torch.relu(second(torch.relu(first(value)))))
            return torch.relu(inner + self.around(value))

    return nn.Sequential(
        convolved(Convolution(3, _FIRST, 7, 2)),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *(Bottleneck(block) for block in blocks()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, _CLASSES),
    )


def litert_graph(name: str) -> bytes:
    """Return Keras' ResNet-50, or an identity of 4 numbers, as a `.tflite` file."""
    import keras

    if name == "identity":
        rows = keras.layers.Input((4,), name="x")
        network = keras.Model(rows, keras.layers.Reshape((4,))(rows))
    else:
        network = keras.applications.ResNet50(weights=None)
    return converted(network)


def converted(network: Any) -> bytes:
    """Return a Keras model as a `.tflite` file."""
    import tensorflow as tf

    with contextlib.redirect_stdout(io.StringIO()):  # it tells at length what it saved
        body: bytes = tf.lite.TFLiteConverter.from_keras_model(network).convert()
    return body
