"""Small ONNX models, written as bytes without the onnx package; zeros are their weights.

Field numbers from onnx.proto3; all tensors are floats but those of `WHOLE`.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from schemas.manifest import Assets, ModelManifest
from services.agent.predictors import OpenRequest
from services.agent.predictors.onnxruntime.predictor import OnnxRuntimePredictor, open_model

FLOAT, WHOLE, TRUTH = 1, 7, 9
OWN = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
Sizes = tuple[int, ...]


class Body(bytes):
    """A graph in a node, as `graph` makes it."""


def varint(value: int) -> bytes:
    """Return a number of protobuf's."""
    low, rest = value & 0x7F, value >> 7
    return bytes((low | 0x80,)) + varint(rest) if rest else bytes((low,))


def field(number: int, value: bytes | str | int) -> bytes:
    """Return one field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def attribute(name: str, value: int | str | bytes | Sequence[int]) -> bytes:
    """Return an attribute of a number, text, tensor (bytes) or numbers."""
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    if isinstance(value, Body):
        return field(1, name) + field(6, bytes(value)) + field(20, 5)
    if isinstance(value, bytes):
        return field(1, name) + field(5, value) + field(20, 4)
    return field(1, name) + b"".join(field(8, each) for each in value) + field(20, 7)


def node(kind: str, inputs: str, output: str, name: str = "", **attributes: Any) -> bytes:
    """Return a node; `inputs` are names with spaces between, `-` for one that is left out."""
    domain = attributes.pop("domain", "")
    given = ["" if each == "-" else each for each in inputs.split()]
    return b"".join((
        *(field(1, each) for each in given),
        *(field(2, each) for each in output.split()),
        field(3, name),
        field(4, kind),
        *(field(5, attribute(key, value)) for key, value in attributes.items()),
        *(field(7, each) for each in [domain] if each),
    ))  # fmt: skip


def tensor(name: str, shape: Sizes, values: Sequence[int] = ()) -> bytes:
    """Return a tensor of zeros, or of whole numbers."""
    array = np.array(values, np.int64) if values else np.zeros(shape, np.float32)
    dims = b"".join(field(1, size) for size in shape)
    kind = field(2, WHOLE if values else FLOAT)
    return dims + kind + field(8, name) + field(9, array.tobytes())


def place(name: str, shape: Sequence[int | str], kind: int = FLOAT) -> bytes:
    """Return an input or output of a model; a size with a name is free."""
    dims = b"".join(field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def model(
    nodes: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    weights: Sequence[bytes] = (),
) -> bytes:
    """Return a model of opset 17, and 1 of ONNX Runtime's own."""
    opsets = field(1, "") + field(2, 17), field(1, OWN) + field(2, 1)
    main = bytes(graph(nodes, inputs, outputs, weights))
    return field(1, 8) + field(7, main) + b"".join(field(8, each) for each in opsets)


def graph(
    nodes: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    weights: Sequence[bytes] = (),
) -> Body:
    """Return a graph."""
    return Body(b"".join((
        *(field(1, each) for each in nodes),
        field(2, "g"),
        *(field(5, each) for each in weights),
        *(field(11, each) for each in inputs),
        *(field(12, each) for each in outputs),
    )))  # fmt: skip


def looped(times: int) -> bytes:
    """Return a model (1, 64) to (1, 64): Relu `pre`, then Loop `loop` of a product and Tanh."""
    body = graph(
        [
            node("MatMul", "x_in w", "product", "in_loop"),
            node("Tanh", "product", "x_out", "bent"),
            node("Identity", "going", "goes_on", "again"),
        ],
        [place("turn", (), WHOLE), place("going", (), TRUTH), place("x_in", (1, 64))],
        [place("goes_on", (), TRUTH), place("x_out", (1, 64))],
    )
    nodes = [node("Relu", "x", "r", "pre"), node("Loop", "times - r", "y", "loop", body=body)]
    weights = [tensor("times", (), [times]), tensor("w", (64, 64))]
    return model(nodes, [place("x", (1, 64))], [place("y", (1, 64))], weights)


def branched() -> bytes:
    """Return a model (1, 64) to (1, 64): If `either`, of Tanh `then` or a product `else`."""
    then = graph([node("Tanh", "x", "a", "then")], [], [place("a", (1, 64))])
    other = graph([node("MatMul", "x w", "b", "else")], [], [place("b", (1, 64))])
    nodes = [
        node("ReduceSum", "x", "sum", "sum", keepdims=0),
        node("Cast", "sum", "is_any", "is_any", to=TRUTH),
        node("If", "is_any", "y", "either", then_branch=then, else_branch=other),
    ]
    return model(nodes, [place("x", (1, 64))], [place("y", (1, 64))], [tensor("w", (64, 64))])


@contextmanager
def opened(
    folder: Path, body: bytes, inputs: dict[str, Any], outputs: Sequence[str], **options: Any
) -> Iterator[OnnxRuntimePredictor]:
    """Open a model."""
    path = folder / "net.onnx"
    path.write_bytes(body)
    batch_size = len(next(iter(inputs.values())))
    ports = [
        {"type": "raw", "layer_name": name, "shape": each.shape, "element_type": str(each.dtype)}
        for name, each in inputs.items()
    ]
    manifest = {
        "name": "net",
        "version": "1.0.0",
        "framework": {"name": "onnxruntime"},
        "inputs": ports,
        "outputs": [{"type": "raw", "layer_name": name} for name in outputs],
        "model": Assets(graph_path="net.onnx"),
    }
    request = OpenRequest(
        ModelManifest.model_validate(manifest),
        graph_path=path,
        graph=body,
        batch_size=batch_size,
        options={"threads": 1, **options},
    )
    predictor = open_model(request)
    try:
        yield predictor
    finally:
        predictor.close()


def captured(
    folder: Path, body: bytes, inputs: dict[str, Any], outputs: Sequence[str], **options: Any
) -> dict[str, dict[str, Any]]:
    """Return the attributes of each layer that ONNX Runtime executes, by its name."""
    with opened(folder, body, inputs, outputs, **options) as predictor:
        capture = predictor.layers([inputs])
        capture.predict(inputs)
        (layers,) = capture.close()
    return {layer.name: json.loads(layer.attributes) for layer in layers}
