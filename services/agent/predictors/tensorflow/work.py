"""FLOPs and bytes read of TensorFlow's nodes, from their operators, shapes and attributes."""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from mlscope.tracing.layer_attributes import (
    Shapes,
    plain_flops,
    product_flops,
    spared_bytes,
    summed_in,
)

_FUNCTION_CALLS = ("StatefulPartitionedCall", "PartitionedCall")
#: what kernels (oneDNN's, fused ones) add to the name of their operator
_KERNEL_AFFIX = re.compile(r"^_(Mkl)?(Native)?|^Fused(?=BatchNorm)|^(Native)?Fused|V\d$|Ex$")
_VARIABLE_GATHER = "ResourceGather"
_PER_ELEMENT: Mapping[str, int] = {
    "RealDiv": 1, "DivNoNan": 1, "Square": 1, "SquaredDifference": 2, "Less": 1, "LessEqual": 1,
    "Greater": 1, "GreaterEqual": 1, "Equal": 1, "LogicalAnd": 1, "LogicalOr": 1, "LogicalNot": 1,
}  # fmt: skip
"""FLOPs per element of the output, of operators that have other names in other frameworks."""
_PER_INPUT = ("Max", "Min", "Prod", "All", "Any", "ArgMax", "ArgMin")
"""Reductions: each element of the input is compared or multiplied once."""

Details = Mapping[str, str | int]
"""By readable name: an Einsum's equation, or the elements in a pool's window."""


def details_of(graph: Any) -> Details:
    """Return the details of a graph's nodes and of its functions' nodes.

    Nodes that share a readable name but differ in their details are left out.
    """
    nodes, has_functions = [], False
    for operation in graph.get_operations():
        has_functions |= operation.type.endswith(("PartitionedCall", "While", "If"))
        if _has_detail(operation.type):
            nodes.append(operation.node_def)
    if has_functions:
        for function in graph.as_graph_def().library.function:
            nodes += [node for node in function.node_def if _has_detail(node.op)]
    details: dict[str, str | int] = {}
    differing = set()
    for node in nodes:
        name = readable_name(node.name)
        if node.op == "Einsum":
            detail: str | int = str(node.attr["equation"].s.decode())
        else:
            detail = int(prod(node.attr["ksize"].list.i))
        if details.setdefault(name, detail) != detail:
            differing.add(name)
    return {name: detail for name, detail in details.items() if name not in differing}


def _has_detail(kind: str) -> bool:
    return kind == "Einsum" or kind.startswith(("MaxPool", "AvgPool"))


def readable_name(name: str) -> str:
    """Return a node's name without the function calls that it was inlined from."""
    parts = [part for part in name.split("/") if not part.startswith(_FUNCTION_CALLS)]
    return "/".join(parts) or name


def flops_of(kind: str, inputs: Shapes, outputs: Shapes, detail: str | int = 1) -> int | None:
    """Return a node's FLOPs; None when they are unknown.

    `kind`: its operator; `inputs`, `outputs`: shapes in elements; `detail`: of `Details`. Kernels
    of convolutions are (height, width, in, out), of depthwise ones (height, width, in, n). The
    inputs of a `…BackpropInput` (a transposed convolution) are (sizes, kernel, gradient); the
    gradient has the shape of the convolution's output, and takes as many FLOPs.
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
            return einsum_flops(detail, inputs)
    name = _KERNEL_AFFIX.sub("", _KERNEL_AFFIX.sub("", kind))
    if name in _PER_INPUT:
        return sum(prod(shape) for shape in inputs[:1])
    if name in _PER_ELEMENT:
        return _PER_ELEMENT[name] * sum(prod(shape) for shape in outputs[:1])
    return plain_flops(name, inputs, outputs, detail if isinstance(detail, int) else 1)


def bytes_read(kind: str, input_bytes: Sequence[int], output_bytes: int) -> int:
    """Return the bytes that a node reads; of a table only the rows that it returns.

    `kind`: its operator; `input_bytes`: the size of each input; `output_bytes`: the size of the
    first output. A variable that is gathered from is an input without a size.
    """
    if kind == _VARIABLE_GATHER:
        return sum(input_bytes) + output_bytes
    return sum(input_bytes) - spared_bytes(kind, input_bytes, output_bytes)


def einsum_flops(equation: str, inputs: Shapes) -> int | None:
    """Return the FLOPs of an Einsum with an `equation` for `inputs` of these shapes.

    These are 2 for each combination of the indices of a product of two operands; None for others.
    """
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(terms) != 2:
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, inputs, strict=False):
        before, dots, behind = term.partition("...")
        # The dimensions of an ellipsis are counted from the last one.
        hidden = len(shape) - len(before) - len(behind) if dots else 0
        labels = [*before, *(f".{number}" for number in range(hidden, 0, -1)), *behind]
        for label, size in zip(labels, shape, strict=False):
            sizes[label] = max(size, sizes.get(label, 1))
    return 2 * prod(sizes.values())
