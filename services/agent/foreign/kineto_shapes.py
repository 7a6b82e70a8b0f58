"""What torch.profiler's `record_shapes=True` tells of an operator: shapes, FLOP, bytes. Pure.

Kineto notes what operators are given, not what they return, so that is computed of it: for
products, pools, and what keeps or broadcasts its inputs' shapes. FLOP are those that
`predictors.pytorch_flops` has of the same operators; what is not known here is left out. Shapes of
outputs by the formulas of torch.nn's Conv2d, ConvTranspose2d, MaxPool2d and torch.matmul.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from services.agent.predictors.natures import plain_flops, spared_bytes

Shape = tuple[int, ...]

_MOST_ELEMENTS = 1 << 40
"""What is larger is no tensor's, and what is counted of it would not fit a column."""
_MOST_FLOPS = 1 << 62
_LONGEST_TEXT = 1 << 16
_ELEMENT_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8,
        "int": 4, "short": 2, "short int": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
        "c10::complex<float>": 8, "c10::complex<double>": 16,
        "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    }
)  # fmt: skip
_INDICES = ("long int", "long", "int")
_LISTS = ("TensorList", "GenericList")
_LIKE_FIRST = frozenset({
    *("relu", "relu6", "hardtanh", "clamp", "leaky_relu", "sigmoid", "hardsigmoid", "tanh"),
    *("silu", "hardswish", "gelu", "erf", "exp", "sqrt", "rsqrt", "neg", "abs", "softmax"),
    *("log_softmax", "batch_norm", "layer_norm", "group_norm", "clone"),
})  # fmt: skip
_BROADCAST = frozenset({"add", "sub", "mul", "div", "pow", "maximum", "minimum"})
_VIEWS = frozenset({
    *("view", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand", "detach", "select"),
    *("slice", "unflatten", "split", "chunk", "alias", "as_strided", "view_as", "unbind"),
})  # fmt: skip
"""What moves nothing: its output is its input, seen otherwise."""
_COPIES = frozenset({
    *("cat", "concat", "stack", "contiguous", "clone", "embedding", "to", "copy", "numpy_T"),
    *("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like"),
})  # fmt: skip
_PER_INPUT = frozenset({"mean", "sum"})


@dataclass(frozen=True, slots=True)
class Given:
    """An operator's arguments: a shape (None of what is no tensor), a type and a text each."""

    shapes: tuple[Shape | None, ...]
    types: tuple[str, ...]
    concrete: tuple[Any, ...]
    #: the tensors of lists of tensors, with all others in order
    tensors: tuple[Shape, ...]

    def shape(self, at: int) -> Shape:
        """Return a tensor's shape. Raises ValueError for what is none."""
        found = self.shapes[at] if at < len(self.shapes) else None
        if found is None:
            raise ValueError(at)
        return found

    def numbers(self, at: int, count: int, default: int | None = None) -> list[int]:
        """Return an argument of one number, or one an axis. Raises ValueError for another."""
        told = self.concrete[at] if at < len(self.concrete) else None
        found = [told] if isinstance(told, int) else told
        if found in (None, []) and default is not None:
            found = [default]
        if not isinstance(found, list) or not all(type(each) is int for each in found):
            raise ValueError(told)
        if len(found) not in (1, count) or max(map(abs, found)) > _MOST_ELEMENTS:
            raise ValueError(told)
        return found * count if len(found) == 1 else found


def nature_of(name: str, dims: str, types: str, concrete: str) -> dict[str, Any]:
    """Return a layer's attributes (`predictors.natures.Nature`) of what Kineto's JSON texts say.

    Texts of another kind than Kineto writes say nothing.
    """
    try:
        given = _given(dims, types, concrete)
    except (ValueError, TypeError, RecursionError):
        return {}
    told: dict[str, Any] = {"input_shapes": [list(each) for each in given.tensors]}
    space, _, kind = name.rpartition("::")
    if space != "aten":
        return told
    plain = kind.removesuffix("_") or kind
    if plain in _VIEWS:
        return told | {"flops": 0, "bytes_read": 0, "bytes_written": 0}
    try:
        out, flops = _worked_out(plain, given)
    except (ValueError, IndexError, ZeroDivisionError):
        return told
    if out is not None and not _is_shape(out):
        return told
    if flops is not None and 0 <= flops < _MOST_FLOPS:
        told["flops"] = flops
    if out is not None:
        told["shape"] = list(out)
        told |= _moved(kind, given, out)
    return told


def _worked_out(kind: str, given: Given) -> tuple[Shape | None, int | None]:
    """Return an operator's output and its FLOP, None for each that is not known."""
    if kind in _PRODUCTS:
        return _PRODUCTS[kind](given)
    if kind in _POOLS:
        return _pool(kind, given)
    if kind in _PER_INPUT:
        return None, plain_flops(kind, given.tensors, ())
    out: Shape | None = None
    if kind in _LIKE_FIRST:
        out = given.shape(0)
    elif kind in _BROADCAST:
        out = _broadcast(*given.tensors)
    elif kind == "embedding":
        out = (*given.shape(1), given.shape(0)[-1])
    flops = (
        0 if kind in _COPIES else plain_flops(kind, given.tensors, () if out is None else (out,))
    )
    return out, flops if out is not None or flops == 0 else None


def _moved(kind: str, given: Given, out: Shape) -> dict[str, Any]:
    """Return what an operator reads and writes, where the types of all its tensors are known."""
    pairs = zip(given.shapes, given.types, strict=True)
    tensors = [(shape, of) for shape, of in pairs if shape is not None]
    if len(tensors) < len(given.tensors) or not tensors:
        return {}
    read = [prod(shape) * _ELEMENT_BYTES[of] for shape, of in tensors]
    # Indices into a table are no part of what is made of it.
    values = [of for _, of in tensors if of not in _INDICES] or [of for _, of in tensors]
    written = prod(out) * max(_ELEMENT_BYTES[of] for of in values)
    spared = spared_bytes(kind, read, written)
    told: dict[str, Any] = {"bytes_read": sum(read) - spared, "bytes_written": written}
    if not kind.endswith("_"):
        told |= {"memory_bytes": written, "memory_kind": "outputs"}
    return told


def _conv(given: Given) -> tuple[Shape, int]:
    """Return the output and FLOP of conv1d to conv3d: 2 for each weight of an output's element."""
    weight = given.shape(1)
    strides, padding, dilation = _strides(given, (3, 4, 5))
    sides = given.shape(0)[-len(weight[2:]) :]
    found = zip(sides, weight[2:], strides, padding, dilation, strict=True)
    made = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in found)
    out = (*given.shape(0)[: -len(made) - 1], weight[0], *made)
    return out, 2 * prod(out) * prod(weight[1:])


def _conv_transpose(given: Given) -> tuple[Shape, int]:
    """Return the output and FLOP of conv_transpose1d to 3d: 2 for each weight of an input's."""
    weight = given.shape(1)
    strides, padding, more, dilation = _strides(given, (3, 4, 5, 7))
    (groups,) = given.numbers(6, 1, 1)
    sides = given.shape(0)[-len(weight[2:]) :]
    found = zip(sides, weight[2:], strides, padding, more, dilation, strict=True)
    made = tuple((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, o, d in found)
    out = (*given.shape(0)[: -len(made) - 1], weight[1] * groups, *made)
    return out, 2 * prod(given.shape(0)) * prod(weight[1:])


def _strides(given: Given, places: Sequence[int]) -> list[list[int]]:
    axes = len(given.shape(1)) - 2
    if axes < 1:
        raise ValueError(axes)
    return [given.numbers(at, axes) for at in places]


def _linear(given: Given) -> tuple[Shape, int]:
    weight = given.shape(1)
    out = (*given.shape(0)[:-1], *weight[:-1])
    return out, 2 * prod(out) * weight[-1]


def _product(first: int) -> Callable[[Given], tuple[Shape, int]]:
    """Return the work of a matrix product whose left operand is at a place: 2 K an element."""

    def worked_out(given: Given) -> tuple[Shape, int]:
        left, right = given.shape(first), given.shape(first + 1)
        summed = left[-1]
        if summed != right[-2 if len(right) > 1 else 0]:
            raise ValueError(right)
        out = (*_broadcast(left[:-2], right[:-2]), *left[-2:-1], *right[1:][-1:])
        return out, 2 * prod(out) * summed

    return worked_out


def _attention(given: Given) -> tuple[Shape, int]:
    """Return the output and FLOP of attention: `pytorch_flops.scaled_product_flops`."""
    query, key, value = (given.shape(at) for at in range(3))
    flops = 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return (*query[:-1], value[-1]), flops


def _pool(kind: str, given: Given) -> tuple[Shape, int]:
    """Return the output and FLOP of a pool: one an element under its window."""
    axes, is_adaptive = int(kind[-2]), kind.startswith("adaptive")
    whole = given.shape(0)
    if is_adaptive:
        out = (*whole[:-axes], *given.numbers(1, axes))
        return out, prod(whole)
    window = given.numbers(1, axes)
    told = given.concrete[2] if len(given.concrete) > 2 else None
    strides = given.numbers(2, axes) if told not in (None, "", []) else window
    padding, is_max = given.numbers(3, axes, 0), kind.startswith("max")
    dilation = given.numbers(4, axes, 1) if is_max else [1] * axes
    ceil_at = 5 if is_max else 4
    is_up = len(given.concrete) > ceil_at and given.concrete[ceil_at] is True
    found = zip(whole[-axes:], window, strides, padding, dilation, strict=True)
    out = (*whole[:-axes], *(_pooled(*each, is_up=is_up) for each in found))
    return out, prod(window) * prod(out)


def _pooled(n: int, k: int, s: int, p: int, d: int, *, is_up: bool) -> int:
    """Return how many windows fit a side; rounded up, the last one begins within it."""
    room = n + 2 * p - d * (k - 1) - 1
    count = (room + s - 1 if is_up else room) // s + 1
    return count - 1 if is_up and (count - 1) * s >= n + p else count


def _broadcast(*shapes: Shape) -> Shape:
    """Return the shape of all, one axis of which may be 1. Raises ValueError for unlike ones."""
    longest = max((len(each) for each in shapes), default=0)
    padded = [(1,) * (longest - len(each)) + each for each in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            raise ValueError(shapes)
        out.append(others.pop() if others else 1)
    return tuple(out)


def _given(dims: str, types: str, concrete: str) -> Given:
    """Return arguments of Kineto's texts. Raises ValueError, TypeError, RecursionError."""
    if max(map(len, (dims, types, concrete))) > _LONGEST_TEXT:
        raise ValueError(len(dims))
    told, kinds, texts = json.loads(dims), json.loads(types or "[]"), json.loads(concrete or "[]")
    if not isinstance(told, list) or len(kinds) != len(told):
        raise ValueError(dims)
    shapes: list[Shape | None] = []
    tensors: list[Shape] = []
    for value, kind in zip(told, kinds, strict=True):
        found = value if kind in _LISTS else [value] if kind in _ELEMENT_BYTES else []
        tensors += [tuple(each) for each in found]
        shapes.append(tuple(value) if kind in _ELEMENT_BYTES else None)
    if not all(map(_is_shape, tensors)):
        raise ValueError(dims)
    values = tuple(_value(each) for each in texts)
    return Given(tuple(shapes), tuple(kinds), values, tuple(tensors))


def _is_shape(shape: Shape) -> bool:
    fine = all(type(size) is int and 0 <= size <= _MOST_ELEMENTS for size in shape)
    return fine and prod(shape) <= _MOST_ELEMENTS


def _value(text: Any) -> Any:
    """Return what a text of an argument says; None for what is none."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return None


_PRODUCTS: Mapping[str, Callable[[Given], tuple[Shape, int]]] = MappingProxyType(
    {
        **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
        **dict.fromkeys(
            ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose
        ),
        "linear": _linear,
        **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot"), _product(0)),
        **dict.fromkeys(("addmm", "baddbmm", "addmv"), _product(1)),
        "scaled_dot_product_attention": _attention,
    }
)
_POOLS = frozenset(
    f"{kind}_pool{axes}d"
    for kind in ("max", "avg", "adaptive_avg", "adaptive_max")
    for axes in (1, 2, 3)
)
