"""Read the nodes and weights of an ONNX file without the onnx package.

Field numbers are those of onnx.proto3: ModelProto.graph = 7, GraphProto.node = 1, initializer = 5,
NodeProto.input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7,
AttributeProto.name = 1, i = 3, s = 4, t = 5, g = 6, ints = 8, TensorProto.dims = 1, data_type = 2,
name = 8.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from mlscope.protobuf import fields, messages, packed_varints, signed

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_INPUT, _OUTPUT, _NAME, _OP_TYPE, _ATTRIBUTE, _DOMAIN = 1, 2, 3, 4, 5, 7
_ATTRIBUTE_NAME, _INTEGER, _TEXT, _TENSOR, _BODY, _INTEGERS = 1, 3, 4, 5, 6, 8
_DIMS, _DATA_TYPE, _TENSOR_NAME = 1, 2, 8

_BITS: Mapping[int, int] = MappingProxyType({
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64,
    15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
})  # fmt: skip
"""Bits of an element by TensorProto.DataType; strings (8) have no fixed size."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A tensor stored in the file: its shape in elements, and the bits of an element."""

    shape: tuple[int, ...]
    bits: int

    @property
    def size_bytes(self) -> int:
        """The bytes of all its elements."""
        return -(-prod(self.shape) * self.bits // 8)


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its name and operator, and the names of its tensors."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = ""
    #: whole numbers by attribute
    integers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: strings by attribute
    texts: Mapping[str, str] = field(default_factory=dict)
    #: whether it contains nodes (loops, branches)
    has_body: bool = False

    @property
    def window(self) -> tuple[int, ...]:
        """The sizes of a convolution's or pool's kernel; () without that attribute."""
        return self.integers.get("kernel_shape", ())

    @property
    def label(self) -> str:
        """Its name, or that of its first output where it has none."""
        return self.name or next(iter(self.outputs), "")


@dataclass(frozen=True, slots=True)
class Graph:
    """An ONNX file's nodes in file order, and its weights by tensor name."""

    nodes: tuple[Node, ...] = ()
    weights: Mapping[str, Weights] = field(default_factory=dict)
    #: nodes in the bodies of others (loops, branches)
    inner: tuple[Node, ...] = ()


@dataclass(slots=True)
class _Contents:
    """Weights and inner nodes, collected while nodes are read."""

    weights: dict[str, Weights] = field(default_factory=dict)
    inner: list[Node] = field(default_factory=list)


def graph_of(model: bytes) -> Graph:
    """Return the main graph and the nodes inside its nodes. Raises ValueError for other files."""
    contents, nodes = _Contents(), list[Node]()
    try:
        for body in messages(memoryview(model), _GRAPH):
            nodes += _graph(body, contents)
    except ValueError as error:
        raise ValueError(f"not an ONNX model: {error}") from error
    return Graph(tuple(nodes), contents.weights, tuple(contents.inner))


def _graph(body: memoryview, contents: _Contents) -> list[Node]:
    """Return a graph's nodes; add its weights and inner nodes to `contents`."""
    for tensor in messages(body, _INITIALIZER):
        name, weights = _weights(tensor)
        contents.weights.setdefault(name, weights)
    return [_node(node, contents) for node in messages(body, _NODE)]


def _node(body: memoryview, contents: _Contents) -> Node:
    strings: dict[int, list[str]] = {_INPUT: [], _OUTPUT: []}
    strings |= {number: [""] for number in (_NAME, _OP_TYPE, _DOMAIN)}
    integers, texts = dict[str, tuple[int, ...]](), dict[str, str]()
    tensors, inner_before = list[Weights](), len(contents.inner)
    for number, _, value in fields(body):
        if number in strings and isinstance(value, memoryview):
            strings[number].append(_text(value))
        elif number == _ATTRIBUTE and isinstance(value, memoryview):
            tensors += _attribute(value, integers, texts, contents)
    node = Node(
        strings[_NAME][-1],
        strings[_OP_TYPE][-1],
        tuple(strings[_INPUT]),
        tuple(strings[_OUTPUT]),
        strings[_DOMAIN][-1],
        integers,
        texts,
        len(contents.inner) > inner_before,
    )
    if node.op_type == "Constant" and node.outputs and tensors:
        contents.weights.setdefault(node.outputs[0], tensors[0])
    return node


def _attribute(
    body: memoryview,
    integers: dict[str, tuple[int, ...]],
    texts: dict[str, str],
    contents: _Contents,
) -> Iterator[Weights]:
    """Add an attribute's numbers, text and inner graph to the arguments; yield its tensor."""
    name, numbers, text = "", list[int](), ""
    for number, _, value in fields(body):
        if number in (_INTEGER, _INTEGERS):
            varints = [value] if isinstance(value, int) else packed_varints(value)
            numbers += map(signed, varints)
        elif isinstance(value, int):
            continue
        elif number == _ATTRIBUTE_NAME:
            name = _text(value)
        elif number == _TEXT:
            text = _text(value)
        elif number == _TENSOR:
            yield _weights(value)[1]
        elif number == _BODY:
            contents.inner += _graph(value, contents)
    if numbers:
        integers[name] = tuple(numbers)
    if text:
        texts[name] = text


def _weights(body: memoryview) -> tuple[str, Weights]:
    """Return a tensor's name, shape and element size; its elements are not read."""
    name, kind, dims = "", 0, list[int]()
    for number, _, value in fields(body):
        if number == _DIMS:
            dims += [value] if isinstance(value, int) else packed_varints(value)
        elif number == _DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == _TENSOR_NAME and isinstance(value, memoryview):
            name = _text(value)
    return name, Weights(tuple(dims), _BITS.get(kind, 0))


def _text(body: memoryview) -> str:
    return bytes(body).decode("utf-8", errors="replace")
