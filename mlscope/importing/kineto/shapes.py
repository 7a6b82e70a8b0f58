"""Shapes, FLOP and bytes of an operator, from torch.profiler's `record_shapes=True`. Pure.

Kineto records an operator's inputs, not its outputs, so these are computed: for products, pools,
and operators that keep or broadcast their inputs' shapes. FLOP are counted as
`predictors.pytorch.flops` counts them for the same operators; unknown operators are left out.
"""

from math import prod
from typing import Any

from mlscope.importing.kineto.arguments import (
    ELEMENT_BYTES,
    Arguments,
    Shape,
    arguments_of,
    is_shape,
)
from mlscope.importing.kineto.products import POOLS, PRODUCTS, broadcast, pool
from mlscope.tracing.layer_attributes import plain_flops, spared_bytes

_MAX_FLOPS = 1 << 62
_INDEX_TYPES = ("long int", "long", "int")
_LIKE_FIRST = frozenset({
    "relu", "relu6", "hardtanh", "clamp", "leaky_relu", "sigmoid", "hardsigmoid", "tanh", "silu",
    "hardswish", "gelu", "erf", "exp", "sqrt", "rsqrt", "neg", "abs", "softmax", "log_softmax",
    "batch_norm", "layer_norm", "group_norm", "clone",
})  # fmt: skip
"""Operators whose output has the shape of their first input."""
_BROADCAST = frozenset({"add", "sub", "mul", "div", "pow", "maximum", "minimum"})
_VIEWS = frozenset({
    "view", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand", "detach", "select",
    "slice", "unflatten", "split", "chunk", "alias", "as_strided", "view_as", "unbind",
})  # fmt: skip
"""Operators that move no data: their output is a view of their input."""
_COPIES = frozenset({
    "cat", "concat", "stack", "contiguous", "clone", "embedding", "to", "copy", "numpy_T", "empty",
    "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like",
})  # fmt: skip
"""Operators that compute nothing."""
_PER_INPUT = frozenset({"mean", "sum"})


def work_of(name: str, dims: str, types: str, concrete: str) -> dict[str, Any]:
    """Return the attributes of a layer (`LayerAttributes`) from Kineto's arguments.

    `name`: the operator, such as `aten::conv2d`. `dims`, `types`, `concrete`: the JSON texts of
    SHAPES, each a list with an element per argument. A text of another form adds no attribute.
    """
    try:
        arguments = arguments_of(dims, types, concrete)
    except (ValueError, TypeError, RecursionError):
        return {}
    attributes: dict[str, Any] = {"input_shapes": [list(shape) for shape in arguments.tensors]}
    namespace, _, operator = name.rpartition("::")
    if namespace != "aten":
        return attributes
    kind = operator.removesuffix("_") or operator
    if kind in _VIEWS:
        return attributes | {"flops": 0, "bytes_read": 0, "bytes_written": 0}
    try:
        output, flops = _output_and_flops(kind, arguments)
    except (ValueError, IndexError, ZeroDivisionError):
        return attributes
    if output is not None and not is_shape(output):
        return attributes
    if flops is not None and 0 <= flops < _MAX_FLOPS:
        attributes["flops"] = flops
    if output is not None:
        attributes["shape"] = list(output)
        attributes |= _traffic(operator, arguments, output)
    return attributes


def _output_and_flops(kind: str, arguments: Arguments) -> tuple[Shape | None, int | None]:
    """Return an operator's output shape and its FLOP, None where unknown."""
    if kind in PRODUCTS:
        return PRODUCTS[kind](arguments)
    if kind in POOLS:
        return pool(kind, arguments)
    if kind in _PER_INPUT:
        return None, plain_flops(kind, arguments.tensors, ())
    output: Shape | None = None
    if kind in _LIKE_FIRST:
        output = arguments.shape(0)
    elif kind in _BROADCAST:
        output = broadcast(*arguments.tensors)
    elif kind == "embedding":
        output = (*arguments.shape(1), arguments.shape(0)[-1])
    if kind in _COPIES:
        return output, 0
    flops = plain_flops(kind, arguments.tensors, () if output is None else (output,))
    return output, flops if output is not None or flops == 0 else None


def _traffic(operator: str, arguments: Arguments, output: Shape) -> dict[str, Any]:
    """Return the bytes an operator reads and writes, where the types of all tensors are known."""
    tensors = arguments.typed
    if len(tensors) < len(arguments.tensors) or not tensors:
        return {}
    read = [prod(shape) * ELEMENT_BYTES[element_type] for shape, element_type in tensors]
    _, types = zip(*tensors, strict=True)
    # The output has the type of the values, not of indices into a table.
    value_types = [element_type for element_type in types if element_type not in _INDEX_TYPES]
    written = prod(output) * max(ELEMENT_BYTES[name] for name in value_types or types)
    attributes: dict[str, Any] = {
        "bytes_read": sum(read) - spared_bytes(operator, read, written),
        "bytes_written": written,
    }
    if not operator.endswith("_"):  # not in place
        attributes |= {"memory_bytes": written, "memory_kind": "outputs"}
    return attributes
