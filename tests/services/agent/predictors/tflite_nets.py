"""Tiny LiteRT models written node by node, so that no converter is needed."""

from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

INPUTS, OUTPUTS = 6, 4


@dataclass(frozen=True, slots=True)
class Dense:
    """Scores of a row: its product with `weights`, plus `bias`."""

    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]

    def answer(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what NumPy makes of rows."""
        return rows @ self.weights.T + self.bias


def dense(seed: int = 3) -> Dense:
    """Return a random layer."""
    random = np.random.default_rng(seed)
    weights = random.standard_normal((OUTPUTS, INPUTS), np.float32)
    return Dense(weights, random.standard_normal(OUTPUTS, np.float32))


def graph_of(
    layer: Dense, *, first: int = -1, reshaped: bool = False, signed: bool = True
) -> bytes:
    """Return a layer as a `.tflite` file.

    `first` is the input's first dimension; `reshaped` fixes the output's to 1 by a constant;
    `signed` adds a signature with the names x and scores.
    """
    outputs, inputs = layer.weights.shape
    model = schema.ModelT()
    model.version = 3
    model.buffers = [_buffer(None), _buffer(layer.weights), _buffer(layer.bias)]
    model.operatorCodes = [_code(schema.BuiltinOperator.FULLY_CONNECTED)]
    graph = schema.SubGraphT()
    graph.tensors = [
        _tensor("serving_x:0", (first, inputs)),
        _tensor("weights", layer.weights.shape, 1),
        _tensor("bias", layer.bias.shape, 2),
        _tensor("call:0", (first, outputs)),
    ]
    options = schema.FullyConnectedOptionsT()
    graph.operators = [_operator(0, [0, 1, 2], [3], "FullyConnectedOptions", options)]
    graph.inputs, graph.outputs = [0], [3]
    if reshaped:
        _reshape(model, graph)
    model.subgraphs = [graph]
    if signed:
        model.signatureDefs = [_signature(graph)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _reshape(model: Any, graph: Any) -> None:
    shape = np.array([1, OUTPUTS], np.int32)
    model.buffers.append(_buffer(shape))
    model.operatorCodes.append(_code(schema.BuiltinOperator.RESHAPE))
    graph.tensors.append(_tensor("shape", shape.shape, 3, schema.TensorType.INT32))
    graph.tensors.append(_tensor("reshaped:0", (1, OUTPUTS)))
    options = schema.ReshapeOptionsT()
    options.newShape = shape
    graph.operators.append(_operator(1, [3, 4], [5], "ReshapeOptions", options))
    graph.outputs = [5]


def _buffer(array: Any) -> Any:
    buffer = schema.BufferT()
    if array is not None:
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
    return buffer


def _code(operator: int) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = 1
    return code


def _operator(code: int, inputs: list[int], outputs: list[int], kind: str, options: Any) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex = code
    operator.inputs, operator.outputs = inputs, outputs
    operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
    operator.builtinOptions = options
    return operator


def _tensor(name: str, shape: tuple[int, ...], buffer: int = 0, kind: int = 0) -> Any:
    tensor = schema.TensorT()
    tensor.name = name.encode()
    tensor.shape = [max(size, 1) for size in shape]
    tensor.shapeSignature = list(shape)
    tensor.buffer = buffer
    tensor.type = kind
    return tensor


def _signature(graph: Any) -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey = b"serving_default"
    signature.subgraphIndex = 0
    signature.inputs = [_mapped("x", graph.inputs[0])]
    signature.outputs = [_mapped("scores", graph.outputs[0])]
    return signature


def _mapped(name: str, index: int) -> Any:
    mapped = schema.TensorMapT()
    mapped.name, mapped.tensorIndex = name.encode(), index
    return mapped
