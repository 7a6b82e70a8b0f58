"""The nodes of an ONNX file, read without the onnx package.

Format: protobuf wire format; field numbers from onnx.proto3 (ModelProto.graph = 7,
GraphProto.node = 1, NodeProto.input = 1, output = 2, name = 3, op_type = 4, attribute = 5,
AttributeProto.name = 1, ints = 8).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_GRAPH, _NODE = 7, 1
_INPUT, _OUTPUT, _NAME, _OP_TYPE, _ATTRIBUTE = 1, 2, 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INTS = 1, 8
_WINDOW = b"kernel_shape"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its name, operator and tensors by name."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: the sizes of a convolution's or pool's kernel, where it says them
    window: tuple[int, ...] = ()


def nodes_of(model: bytes) -> list[Node]:
    """Return the nodes of the main graph, in file order. Raises ValueError when it is no ONNX."""
    view = memoryview(model)
    try:
        return [_node(node) for graph in _parts(view, _GRAPH) for node in _parts(graph, _NODE)]
    except IndexError as error:
        raise ValueError("not an ONNX model") from error


def originals_of(originals: Sequence[Node], kept: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return, for each executed node, the names of the original nodes it does the work of.

    `kept` maps an executed node's name to the original node that ends it. Its region is found
    by walking back from there through the graph up to the ends of other executed nodes.
    """
    by_name = {node.name: node for node in originals}
    maker = {output: node for node in originals for output in node.outputs}
    ends = {by_name[last].name for last in kept.values() if last in by_name}
    order = {node.name: index for index, node in enumerate(originals)}
    return {
        executed: tuple(sorted(_region(by_name[last], maker, ends), key=order.__getitem__))
        for executed, last in kept.items()
        if last in by_name
    }


def _region(end: Node, maker: Mapping[str, Node], ends: set[str]) -> set[str]:
    found, waiting = {end.name}, [end]
    while waiting:
        for tensor in waiting.pop().inputs:
            node = maker.get(tensor)
            if node is not None and node.name not in ends and node.name not in found:
                found.add(node.name)
                waiting.append(node)
    return found


def _node(body: memoryview) -> Node:
    texts: dict[int, list[str]] = {_INPUT: [], _OUTPUT: [], _NAME: [""], _OP_TYPE: [""]}
    window: tuple[int, ...] = ()
    for field, value in _fields(body):
        if field in texts and isinstance(value, memoryview):
            texts[field].append(bytes(value).decode("utf-8", errors="replace"))
        elif field == _ATTRIBUTE and isinstance(value, memoryview):
            window = _window(value) or window
    name, kind = texts[_NAME][-1], texts[_OP_TYPE][-1]
    return Node(name, kind, tuple(texts[_INPUT]), tuple(texts[_OUTPUT]), window)


def _window(attribute: memoryview) -> tuple[int, ...]:
    """Return a kernel's sizes from one attribute; () for any other."""
    name, sizes = b"", list[int]()
    for field, value in _fields(attribute):
        if field == _ATTRIBUTE_NAME and isinstance(value, memoryview):
            name = bytes(value)
        elif field == _ATTRIBUTE_INTS and name == _WINDOW:
            sizes += [value] if isinstance(value, int) else _varints(value)
    return tuple(sizes) if name == _WINDOW else ()


def _varints(packed: memoryview) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def _parts(body: memoryview, wanted: int) -> Iterator[memoryview]:
    for field, value in _fields(body):
        if field == wanted and isinstance(value, memoryview):
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
