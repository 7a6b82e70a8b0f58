"""Shapes, FLOP and bytes of an operator, from torch.profiler's `record_shapes=True`. Pure.

Kineto records an operator's inputs, not its outputs, so these are computed: for products, pools,
and operators that keep or broadcast their inputs' shapes. FLOP are counted as
`predictors.pytorch.flops` counts them for the same operators; unknown operators are left out.
Shapes of outputs by the formulas of torch.nn's Conv2d, ConvTranspose2d, MaxPool2d and torch.matmul.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from mlscope.tracing.layer_attributes import plain_flops, spared_bytes

Shape = tuple[int, ...]

_MAX_ELEMENTS = 1 << 40
"""No tensor is larger, and its counts would not fit a column."""
_MAX_FLOPS = 1 << 62
_MAX_TEXT = 1 << 16
_ELEMENT_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8,
        "int": 4, "short": 2, "short int": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
        "c10::complex<float>": 8, "c10::complex<double>": 16,
        "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    }
)  # fmt: skip
_INDEX_TYPES = ("long int", "long", "int")
_LISTS = ("TensorList", "GenericList")
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


@dataclass(frozen=True, slots=True)
class Arguments:
    """An operator's arguments: the shape of each (None unless a tensor), its type and value."""

    shapes: tuple[Shape | None, ...]
    types: tuple[str, ...]
    values: tuple[Any, ...]
    #: the shapes of all tensors in order, including those in lists of tensors
    tensors: tuple[Shape, ...]

    def shape(self, at: int) -> Shape:
        """Return the shape of a tensor argument. Raises ValueError where it is not one."""
        shape = self.shapes[at] if at < len(self.shapes) else None
        if shape is None:
            raise ValueError(at)
        return shape

    def numbers(self, at: int, count: int, default: int | None = None) -> list[int]:
        """Return an argument of one number for all axes, or one per axis.

        `at`: its place. `count`: how many axes. `default`: the number where the argument is
        missing or empty. Raises ValueError for any other value.
        """
        value = self.values[at] if at < len(self.values) else None
        numbers = [value] if isinstance(value, int) else value
        if numbers in (None, []) and default is not None:
            numbers = [default]
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise ValueError(value)
        if len(numbers) not in (1, count) or max(map(abs, numbers)) > _MAX_ELEMENTS:
            raise ValueError(value)
        return numbers * count if len(numbers) == 1 else numbers


def work_of(name: str, dims: str, types: str, concrete: str) -> dict[str, Any]:
    """Return the attributes of a layer (`LayerAttributes`) from Kineto's arguments.

    `name`: the operator, such as `aten::conv2d`. `dims`, `types`, `concrete`: the JSON texts of
    SHAPES, each a list with an element per argument. A text of another form adds no attribute.
    """
    try:
        arguments = _parsed(dims, types, concrete)
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
    if output is not None and not _is_shape(output):
        return attributes
    if flops is not None and 0 <= flops < _MAX_FLOPS:
        attributes["flops"] = flops
    if output is not None:
        attributes["shape"] = list(output)
        attributes |= _traffic(operator, arguments, output)
    return attributes


def _output_and_flops(kind: str, arguments: Arguments) -> tuple[Shape | None, int | None]:
    """Return an operator's output shape and its FLOP, None where unknown."""
    if kind in _PRODUCTS:
        return _PRODUCTS[kind](arguments)
    if kind in _POOLS:
        return _pool(kind, arguments)
    if kind in _PER_INPUT:
        return None, plain_flops(kind, arguments.tensors, ())
    output: Shape | None = None
    if kind in _LIKE_FIRST:
        output = arguments.shape(0)
    elif kind in _BROADCAST:
        output = _broadcast(*arguments.tensors)
    elif kind == "embedding":
        output = (*arguments.shape(1), arguments.shape(0)[-1])
    if kind in _COPIES:
        return output, 0
    flops = plain_flops(kind, arguments.tensors, () if output is None else (output,))
    return output, flops if output is not None or flops == 0 else None


def _traffic(operator: str, arguments: Arguments, output: Shape) -> dict[str, Any]:
    """Return the bytes an operator reads and writes, where the types of all tensors are known."""
    tensors = [
        (shape, element_type)
        for shape, element_type in zip(arguments.shapes, arguments.types, strict=True)
        if shape is not None
    ]
    if len(tensors) < len(arguments.tensors) or not tensors:
        return {}
    read = [prod(shape) * _ELEMENT_BYTES[element_type] for shape, element_type in tensors]
    types = [element_type for _, element_type in tensors]
    # The output has the type of the values, not of indices into a table.
    value_types = [element_type for element_type in types if element_type not in _INDEX_TYPES]
    written = prod(output) * max(_ELEMENT_BYTES[name] for name in value_types or types)
    attributes: dict[str, Any] = {
        "bytes_read": sum(read) - spared_bytes(operator, read, written),
        "bytes_written": written,
    }
    if not operator.endswith("_"):  # not in place
        attributes |= {"memory_bytes": written, "memory_kind": "outputs"}
    return attributes


def _conv(arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of conv1d to conv3d: 2 per weight and element of the output."""
    weight = arguments.shape(1)
    strides, padding, dilation = _per_axis(arguments, (3, 4, 5))
    sides = arguments.shape(0)[-len(weight[2:]) :]
    axes = zip(sides, weight[2:], strides, padding, dilation, strict=True)
    output_sides = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)
    output = (*arguments.shape(0)[: -len(output_sides) - 1], weight[0], *output_sides)
    return output, 2 * prod(output) * prod(weight[1:])


def _conv_transpose(arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of conv_transpose1d to 3d: 2 per weight and input element."""
    weight = arguments.shape(1)
    strides, padding, output_padding, dilation = _per_axis(arguments, (3, 4, 5, 7))
    (groups,) = arguments.numbers(6, 1, 1)
    sides = arguments.shape(0)[-len(weight[2:]) :]
    axes = zip(sides, weight[2:], strides, padding, output_padding, dilation, strict=True)
    output_sides = tuple((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, o, d in axes)
    output = (*arguments.shape(0)[: -len(output_sides) - 1], weight[1] * groups, *output_sides)
    return output, 2 * prod(arguments.shape(0)) * prod(weight[1:])


def _per_axis(arguments: Arguments, places: Sequence[int]) -> list[list[int]]:
    """Return arguments of a convolution that have a number per axis of its kernel."""
    axes = len(arguments.shape(1)) - 2
    if axes < 1:
        raise ValueError(axes)
    return [arguments.numbers(place, axes) for place in places]


def _linear(arguments: Arguments) -> tuple[Shape, int]:
    weight = arguments.shape(1)
    output = (*arguments.shape(0)[:-1], *weight[:-1])
    return output, 2 * prod(output) * weight[-1]


def _matrix_product(first: int) -> Callable[[Arguments], tuple[Shape, int]]:
    """Return the counter of a matrix product: 2 K per element of the output.

    `first`: the place of its left operand; the right one follows it.
    """

    def output_and_flops(arguments: Arguments) -> tuple[Shape, int]:
        lhs, rhs = arguments.shape(first), arguments.shape(first + 1)
        summed = lhs[-1]
        if summed != rhs[-2 if len(rhs) > 1 else 0]:
            raise ValueError(rhs)
        output = (*_broadcast(lhs[:-2], rhs[:-2]), *lhs[-2:-1], *rhs[1:][-1:])
        return output, 2 * prod(output) * summed

    return output_and_flops


def _attention(arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of attention, as `pytorch.flops.scaled_product_flops`."""
    query, key, value = (arguments.shape(at) for at in range(3))
    flops = 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return (*query[:-1], value[-1]), flops


def _pool(kind: str, arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of a pool: 1 per element under its window."""
    axes, pooled = int(kind[-2]), arguments.shape(0)
    if kind.startswith("adaptive"):
        return (*pooled[:-axes], *arguments.numbers(1, axes)), prod(pooled)
    window = arguments.numbers(1, axes)
    stride_value = arguments.values[2] if len(arguments.values) > 2 else None
    strides = arguments.numbers(2, axes) if stride_value not in (None, "", []) else window
    padding, is_max = arguments.numbers(3, axes, 0), kind.startswith("max")
    dilation = arguments.numbers(4, axes, 1) if is_max else [1] * axes
    ceil_place = 5 if is_max else 4
    is_ceil = len(arguments.values) > ceil_place and arguments.values[ceil_place] is True
    output_sides = []
    for n, k, s, p, d in zip(pooled[-axes:], window, strides, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        windows = (room + s - 1 if is_ceil else room) // s + 1
        # Rounded up, the last window must still begin within the padded side.
        output_sides.append(windows - 1 if is_ceil and (windows - 1) * s >= n + p else windows)
    output = (*pooled[:-axes], *output_sides)
    return output, prod(window) * prod(output)


def _broadcast(*shapes: Shape) -> Shape:
    """Return the shape that the shapes broadcast to. Raises ValueError where they do not."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    output = []
    for sizes in zip(*padded, strict=True):
        lengths = {size for size in sizes if size != 1}
        if len(lengths) > 1:
            raise ValueError(shapes)
        output.append(lengths.pop() if lengths else 1)
    return tuple(output)


def _parsed(dims: str, types: str, concrete: str) -> Arguments:
    """Return the arguments of Kineto's texts. Raises ValueError, TypeError, RecursionError."""
    if max(map(len, (dims, types, concrete))) > _MAX_TEXT:
        raise ValueError(len(dims))
    sizes, kinds, texts = json.loads(dims), json.loads(types or "[]"), json.loads(concrete or "[]")
    if not isinstance(sizes, list) or len(kinds) != len(sizes):
        raise ValueError(dims)
    shapes: list[Shape | None] = []
    tensors: list[Shape] = []
    for value, kind in zip(sizes, kinds, strict=True):
        listed = value if kind in _LISTS else [value] if kind in _ELEMENT_BYTES else []
        tensors += [tuple(shape) for shape in listed]
        shapes.append(tuple(value) if kind in _ELEMENT_BYTES else None)
    if not all(map(_is_shape, tensors)):
        raise ValueError(dims)
    return Arguments(tuple(shapes), tuple(kinds), tuple(map(_value, texts)), tuple(tensors))


def _is_shape(shape: Shape) -> bool:
    are_sizes = all(type(size) is int and 0 <= size <= _MAX_ELEMENTS for size in shape)
    return are_sizes and prod(shape) <= _MAX_ELEMENTS


def _value(text: Any) -> Any:
    """Return the value of an argument's text; None where it has none."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return None


_PRODUCTS: Mapping[str, Callable[[Arguments], tuple[Shape, int]]] = MappingProxyType(
    {
        **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
        **dict.fromkeys(
            ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose
        ),
        "linear": _linear,
        **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot"), _matrix_product(0)),
        **dict.fromkeys(("addmm", "baddbmm", "addmv"), _matrix_product(1)),
        "scaled_dot_product_attention": _attention,
    }
)
_POOLS = frozenset(
    f"{kind}_pool{axes}d"
    for kind in ("max", "avg", "adaptive_avg", "adaptive_max")
    for axes in (1, 2, 3)
)
