"""The nodes and weights of an ONNX file, read without the onnx package.

Format: protobuf wire format; field numbers from onnx.proto3 (ModelProto.graph = 7,
GraphProto.node = 1, initializer = 5, NodeProto.input = 1, output = 2, name = 3, op_type = 4,
attribute = 5, domain = 7, AttributeProto.name = 1, i = 3, s = 4, t = 5, g = 6, ints = 8,
TensorProto.dims = 1, data_type = 2, name = 8).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_INPUT, _OUTPUT, _NAME, _OP_TYPE, _ATTRIBUTE, _DOMAIN = 1, 2, 3, 4, 5, 7
_ATTRIBUTE_NAME, _INTEGER, _TEXT, _TENSOR, _BODY, _INTEGERS = 1, 3, 4, 5, 6, 8
_DIMS, _DATA_TYPE, _TENSOR_NAME = 1, 2, 8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_BITS: Mapping[int, int] = MappingProxyType({
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64,
    15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
})  # fmt: skip
"""Bits of an element by TensorProto.DataType; texts (8) have no size of their own."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A tensor that lies in the file: its shape in elements, and the bits of one."""

    shape: tuple[int, ...]
    bits: int

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all its elements."""
        return -(-prod(self.shape) * self.bits // 8)


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its name, operator and tensors by name."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = ""
    #: its whole numbers by attribute
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: its texts by attribute
    words: Mapping[str, str] = field(default_factory=dict)
    #: whether it holds nodes (loops, branches)
    has_body: bool = False

    @property
    def window(self) -> tuple[int, ...]:
        """Return the sizes of a convolution's or pool's kernel, where it says them."""
        return self.sizes.get("kernel_shape", ())

    @property
    def label(self) -> str:
        """Return its name; that of its first output where it has none."""
        return self.name or next(iter(self.outputs), "")


@dataclass(frozen=True, slots=True)
class Graph:
    """What an ONNX file holds: nodes in file order, and the shapes of its weights by tensor."""

    nodes: tuple[Node, ...] = ()
    weights: Mapping[str, Weights] = field(default_factory=dict)
    #: nodes in the bodies of others (loops, branches)
    inner: tuple[Node, ...] = ()


@dataclass(slots=True)
class _Found:
    """What the nodes of a graph hold beside themselves, as they are read."""

    weights: dict[str, Weights] = field(default_factory=dict)
    inner: list[Node] = field(default_factory=list)


def graph_of(model: bytes) -> Graph:
    """Return the main graph and what is in its nodes. Raises ValueError when it is no ONNX."""
    found, nodes = _Found(), list[Node]()
    try:
        for body in _parts(memoryview(model), _GRAPH):
            nodes += _graph(body, found)
    except IndexError as error:
        raise ValueError("not an ONNX model") from error
    return Graph(tuple(nodes), found.weights, tuple(found.inner))


def _graph(body: memoryview, found: _Found) -> list[Node]:
    """Return a graph's nodes; note its weights and what its nodes hold."""
    for tensor in _parts(body, _INITIALIZER):
        name, weights = _weights(tensor)
        found.weights.setdefault(name, weights)
    return [_node(node, found) for node in _parts(body, _NODE)]


def _node(body: memoryview, found: _Found) -> Node:
    texts: dict[int, list[str]] = {_INPUT: [], _OUTPUT: []}
    texts |= {each: [""] for each in (_NAME, _OP_TYPE, _DOMAIN)}
    sizes, words = dict[str, tuple[int, ...]](), dict[str, str]()
    held, known = list[Weights](), len(found.inner)
    for number, value in _fields(body):
        if number in texts and isinstance(value, memoryview):
            texts[number].append(_text(value))
        elif number == _ATTRIBUTE and isinstance(value, memoryview):
            held += _attribute(value, sizes, words, found)
    node = Node(
        texts[_NAME][-1],
        texts[_OP_TYPE][-1],
        tuple(texts[_INPUT]),
        tuple(texts[_OUTPUT]),
        texts[_DOMAIN][-1],
        sizes,
        words,
        len(found.inner) > known,
    )
    if node.op_type == "Constant" and node.outputs and held:
        found.weights.setdefault(node.outputs[0], held[0])
    return node


def _attribute(
    body: memoryview, sizes: dict[str, tuple[int, ...]], words: dict[str, str], found: _Found
) -> Iterator[Weights]:
    """Note an attribute's numbers, text and body; yield its tensor."""
    name, numbers, text = "", list[int](), ""
    for number, value in _fields(body):
        if number in (_INTEGER, _INTEGERS):
            numbers += [value] if isinstance(value, int) else _varints(value)
        elif isinstance(value, int):
            continue
        elif number == _ATTRIBUTE_NAME:
            name = _text(value)
        elif number == _TEXT:
            text = _text(value)
        elif number == _TENSOR:
            yield _weights(value)[1]
        elif number == _BODY:
            found.inner += _graph(value, found)
    if numbers:
        sizes[name] = tuple(numbers)
    if text:
        words[name] = text


def _weights(body: memoryview) -> tuple[str, Weights]:
    """Return a tensor's name and shape; its elements are not looked at."""
    name, kind, dims = "", 0, list[int]()
    for number, value in _fields(body):
        if number == _DIMS:
            dims += [value] if isinstance(value, int) else _varints(value)
        elif number == _DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == _TENSOR_NAME and isinstance(value, memoryview):
            name = _text(value)
    return name, Weights(tuple(dims), _BITS.get(kind, 0))


def _text(body: memoryview) -> str:
    return bytes(body).decode("utf-8", errors="replace")


def _varints(packed: memoryview) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def _parts(body: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(body):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _fields(body: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(body):
        key, at = _varint(body, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(body, at)
            yield key >> 3, value
        elif kind == _BYTES:
            size, at = _varint(body, at)
            yield key >> 3, body[at : at + size]
            at += size
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"not an ONNX model: wire type {kind}")


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
