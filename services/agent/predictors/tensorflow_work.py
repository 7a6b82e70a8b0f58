"""What a node of TensorFlow's computes and reads, by its operator, shapes and its graph's word."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from services.agent.predictors.natures import (
    Shapes,
    plain_flops,
    product_flops,
    spared_bytes,
    summed_in,
)

_CALLED = ("StatefulPartitionedCall", "PartitionedCall")
#: what names of kernels add to an operator's, oneDNN's and fused ones' among them
_ADDED = re.compile(r"^_(Mkl)?(Native)?|^Fused(?=BatchNorm)|^(Native)?Fused|V\d$|Ex$")
_HELD = "ResourceGather"
_PER_ELEMENT: Mapping[str, int] = {
    "RealDiv": 1, "DivNoNan": 1, "Square": 1, "SquaredDifference": 2, "Less": 1, "LessEqual": 1,
    "Greater": 1, "GreaterEqual": 1, "Equal": 1, "LogicalAnd": 1, "LogicalOr": 1, "LogicalNot": 1,
}  # fmt: skip
"""FLOPs per element of the output, of operators that other frameworks call otherwise."""
_PER_INPUT = ("Max", "Min", "Prod", "All", "Any", "ArgMax", "ArgMin")
"""Reductions: each element of the input is compared or multiplied once."""

Details = Mapping[str, str | int]
"""By readable name an Einsum's equation, or the elements under a pool's window."""


def details_of(graph: Any) -> Details:
    """Return what a graph says of its nodes and its functions', beside their shapes."""
    found: dict[str, str | int] = {}
    differing = set()
    for node in _nodes_of(graph):
        name, detail = readable_name(node.name), _detail(node)
        if found.setdefault(name, detail) != detail:
            differing.add(name)
    return {name: detail for name, detail in found.items() if name not in differing}


def readable_name(name: str) -> str:
    """Return a node's name without the calls of functions that it was inlined from."""
    parts = name.split("/")
    kept = [part for part in parts if not part.startswith(_CALLED)]
    return "/".join(kept) or name


def flops_of(kind: str, inputs: Shapes, outputs: Shapes, detail: str | int = 1) -> int | None:
    """Return a node's FLOPs: kernels are (height, width, in, out), depthwise ones (h, w, in, n).

    A `…BackpropInput` (a transposed convolution) is given (sizes, kernel, gradient): the gradient
    has the shape that the convolution's output had, and costs what that did.
    """
    if len(inputs) > 1 and outputs:
        kernel = inputs[1]
        if "BackpropInput" in kind and len(kernel) >= 3:
            is_depthwise = "Depthwise" in kind
            return product_flops(inputs[2:3], prod(kernel[:2] if is_depthwise else kernel[:-1]))
        if "DepthwiseConv" in kind and len(kernel) == 4:
            return product_flops(outputs, prod(kernel[:2]))
        if "Conv" in kind and len(kernel) >= 3:
            return product_flops(outputs, prod(kernel[:-1]))
        if "MatMul" in kind and inputs[0]:
            return product_flops(outputs, summed_in(inputs[0], outputs[0]))
        if "Einsum" in kind and isinstance(detail, str):
            return _einsum_flops(detail, inputs)
    return _plain_flops(_ADDED.sub("", _ADDED.sub("", kind)), inputs, outputs, detail)


def bytes_read(kind: str, given_bytes: Sequence[int], written_bytes: int) -> int:
    """Return the bytes that a node reads: of a table the rows it returns, and its indices.

    A variable that is gathered from is given as a handle of no size.
    """
    if kind == _HELD:
        return sum(given_bytes) + written_bytes
    return sum(given_bytes) - spared_bytes(kind, given_bytes, written_bytes)


def _plain_flops(name: str, inputs: Shapes, outputs: Shapes, detail: str | int) -> int | None:
    if name in _PER_INPUT:
        return sum(prod(shape) for shape in inputs[:1])
    if name in _PER_ELEMENT:
        return _PER_ELEMENT[name] * sum(prod(shape) for shape in outputs[:1])
    return plain_flops(name, inputs, outputs, detail if isinstance(detail, int) else 1)


def _einsum_flops(equation: str, inputs: Shapes) -> int | None:
    """Return 2 FLOPs for each combination of the indices of a product of two operands."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(terms) != 2:
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, inputs, strict=False):
        for label, size in zip(_labels(term, len(shape)), shape, strict=False):
            sizes[label] = max(size, sizes.get(label, 1))
    return 2 * prod(sizes.values())


def _labels(term: str, rank: int) -> list[str]:
    """Return an index for each dimension; those of an ellipsis are told from the last one on."""
    before, dots, behind = term.partition("...")
    more = rank - len(before) - len(behind) if dots else 0
    return [*before, *(f".{more - place}" for place in range(more)), *behind]


def _nodes_of(graph: Any) -> Iterator[Any]:
    has_functions = False
    for operation in graph.get_operations():
        has_functions |= operation.type.endswith(("PartitionedCall", "While", "If"))
        if _has_detail(operation.type):
            yield operation.node_def
    if has_functions:
        for function in graph.as_graph_def().library.function:
            yield from (node for node in function.node_def if _has_detail(node.op))


def _has_detail(kind: str) -> bool:
    return kind == "Einsum" or kind.startswith(("MaxPool", "AvgPool"))


def _detail(node: Any) -> str | int:
    if node.op == "Einsum":
        return str(node.attr["equation"].s.decode())
    return int(prod(node.attr["ksize"].list.i))
