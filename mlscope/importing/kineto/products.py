"""Outputs and FLOP of products and pools, from the shapes of their inputs. Pure.

Kineto records an operator's inputs, not its outputs. Formulas of torch.nn's Conv2d,
ConvTranspose2d, MaxPool2d and torch.matmul; each function raises ValueError, IndexError or
ZeroDivisionError for arguments that such an operator never has.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType

from mlscope.importing.kineto.arguments import Arguments, Shape


def conv(arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of conv1d to conv3d: 2 per weight and element of the output."""
    weight = arguments.shape(1)
    strides, padding, dilation = _per_axis(arguments, (3, 4, 5))
    sides = arguments.shape(0)[-len(weight[2:]) :]
    axes = zip(sides, weight[2:], strides, padding, dilation, strict=True)
    output_sides = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)
    output = (*arguments.shape(0)[: -len(output_sides) - 1], weight[0], *output_sides)
    return output, 2 * prod(output) * prod(weight[1:])


def conv_transpose(arguments: Arguments) -> tuple[Shape, int]:
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


def linear(arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of a linear layer: 2 per weight and row of its input."""
    weight = arguments.shape(1)
    output = (*arguments.shape(0)[:-1], *weight[:-1])
    return output, 2 * prod(output) * weight[-1]


def matrix_product(first: int) -> Callable[[Arguments], tuple[Shape, int]]:
    """Return the counter of a matrix product: 2 K per element of the output.

    `first`: the place of its left operand; the right one follows it.
    """

    def output_and_flops(arguments: Arguments) -> tuple[Shape, int]:
        lhs, rhs = arguments.shape(first), arguments.shape(first + 1)
        summed = lhs[-1]
        if summed != rhs[-2 if len(rhs) > 1 else 0]:
            raise ValueError(rhs)
        output = (*broadcast(lhs[:-2], rhs[:-2]), *lhs[-2:-1], *rhs[1:][-1:])
        return output, 2 * prod(output) * summed

    return output_and_flops


def attention(arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of attention, as `pytorch.flops.scaled_product_flops`."""
    query, key, value = (arguments.shape(at) for at in range(3))
    flops = 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return (*query[:-1], value[-1]), flops


def pool(kind: str, arguments: Arguments) -> tuple[Shape, int]:
    """Return the output and FLOP of a pool, such as max_pool2d: 1 per element under its window."""
    axes, pooled = int(kind[-2]), arguments.shape(0)
    if kind.startswith("adaptive"):
        return (*pooled[:-axes], *arguments.numbers(1, axes)), prod(pooled)
    window = arguments.numbers(1, axes)
    strides = window if arguments.value(2) in (None, "", []) else arguments.numbers(2, axes)
    padding = arguments.numbers(3, axes, 0)
    dilation, ceil_place = [1] * axes, 4
    if kind.startswith("max"):
        dilation, ceil_place = arguments.numbers(4, axes, 1), 5
    is_ceil = arguments.value(ceil_place) is True
    output_sides = []
    for n, k, s, p, d in zip(pooled[-axes:], window, strides, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        windows = (room + s - 1 if is_ceil else room) // s + 1
        # Rounded up, the last window must still begin within the padded side.
        output_sides.append(windows - 1 if is_ceil and (windows - 1) * s >= n + p else windows)
    output = (*pooled[:-axes], *output_sides)
    return output, prod(window) * prod(output)


def broadcast(*shapes: Shape) -> Shape:
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


PRODUCTS: Mapping[str, Callable[[Arguments], tuple[Shape, int]]] = MappingProxyType(
    {
        **dict.fromkeys(("conv1d", "conv2d", "conv3d"), conv),
        **dict.fromkeys(
            ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), conv_transpose
        ),
        "linear": linear,
        **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot"), matrix_product(0)),
        **dict.fromkeys(("addmm", "baddbmm", "addmv"), matrix_product(1)),
        "scaled_dot_product_attention": attention,
    }
)
"""The counters of products by operator."""
POOLS = frozenset(
    f"{kind}_pool{axes}d"
    for kind in ("max", "avg", "adaptive_avg", "adaptive_max")
    for axes in (1, 2, 3)
)
