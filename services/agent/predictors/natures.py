"""What a layer is, beside when it ran: the JSON attributes of its spans, the same in every call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlscope.tracing.texts import json_text

Shapes = Sequence[Sequence[int]]
"""One shape a tensor."""

_PER_ELEMENT: Mapping[str, int] = {
    "add": 1, "sub": 1, "mul": 1, "div": 1, "relu": 1, "relu6": 1, "clip": 2, "clamp": 2,
    "hardtanh": 2, "leakyrelu": 2, "sigmoid": 4, "hardsigmoid": 3, "tanh": 4, "silu": 5,
    "hardswish": 4, "gelu": 8, "erf": 8, "exp": 1, "sqrt": 1, "rsqrt": 2, "neg": 1, "abs": 1,
    "pow": 1, "max": 1, "min": 1, "softmax": 5, "logsoftmax": 5, "batchnorm": 2,
    "batchnormalization": 2, "layernorm": 7, "layernormalization": 7, "groupnorm": 7,
    "instancenormalization": 7, "biasadd": 1, "addv2": 1,
    "addn": 1, "maximum": 1, "minimum": 1, "quickgelu": 6, "fastgelu": 8, "biasgelu": 9,
    "skiplayernormalization": 8,
}  # fmt: skip
"""FLOPs per element of the output; transcendental functions are counted as a few operations."""
_PER_INPUT: Mapping[str, int] = {
    "mean": 1, "sum": 1, "reducemean": 1, "reducesum": 1, "globalaveragepool": 1,
    "globalmaxpool": 1, "adaptiveavgpool2d": 1, "adaptivemaxpool2d": 1,
}  # fmt: skip
"""FLOPs per element of the input: each is added or compared once."""
_MOVING = frozenset({
    *("reshape", "transpose", "flatten", "squeeze", "unsqueeze", "concat", "split", "slice", "pad"),
    *("gather", "gathernd", "gatherelements", "scatternd", "scatterelements", "identity", "cast"),
    *("expand", "tile", "shape", "size", "constantofshape", "depthtospace", "spacetodepth"),
    *("where", "reversesequence", "onehot", "dropout", "reorderinput", "reorderoutput"),
    *("memcpyfromhost", "memcpytohost", "concatv2", "stridedslice", "gatherv2", "resourcegather"),
    *("pack", "unpack", "expanddims", "fill", "zeroslike", "oneslike", "padv2", "mirrorpad"),
    *("broadcastto", "splitv", "select", "selectv2", "bitcast", "spacetobatchnd", "batchtospacend"),
    *("reorder", "concatenation", "broadcast", "convert", "shapeof", "output", "result"),
})  # fmt: skip
"""What only moves, casts or chooses elements, by the names of ONNX, TensorFlow and OpenVINO."""
_TAKING: Mapping[str, Sequence[int]] = {
    "gather": (0,), "gatherv2": (0,), "gathernd": (0,), "gatherelements": (0,),
    "resourcegather": (0,), "embedding": (0,), "index": (0,), "indexselect": (0,), "take": (0,),
    "slice": (0,), "stridedslice": (0,), "dynamicslice": (0,), "embedlayernormalization": (2, 3, 4),
}  # fmt: skip
"""Operators that read of a table what their indices name, and the tables' places in the inputs."""


@dataclass(frozen=True, slots=True)
class Nature:
    """A layer's attributes; what is None is unknown and left out.

    `flops` counts 2 for a multiply and add; bytes are those of the tensors read and written, of a
    table only those of the rows taken: a lower bound of the traffic. `shapes` are its outputs', in
    elements.
    """

    index: int
    type: str
    shapes: Shapes = ()
    input_shapes: Shapes | None = None
    provider: str = ""
    original: Sequence[str] = ()
    memory_bytes: int | None = None
    #: measured: what the framework's allocator was asked for (by ONNX Runtime what of it was kept);
    #: or outputs: the bytes of the new tensors it returns
    memory_kind: str = ""
    flops: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> bytes:
        """Return the JSON text that its spans carry."""
        shapes = [list(shape) for shape in self.shapes]
        told = {
            "type": self.type,
            "index": self.index,
            "shape": shapes[0] if len(shapes) == 1 else shapes,
            "input_shapes": self.input_shapes and [list(shape) for shape in self.input_shapes],
            "provider": self.provider,
            "original": list(self.original),
            "memory_bytes": self.memory_bytes,
            "memory_kind": self.memory_kind or None,
            "flops": self.flops,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            **self.more,
        }
        return json_text({name: value for name, value in told.items() if value is not None})


def plain_flops(kind: str, inputs: Shapes, outputs: Shapes, window: int = 1) -> int | None:
    """Return the FLOPs of an operator without products; None for one that is not known.

    `window` is the elements under a pool's kernel. Source: one operation an element for
    arithmetic, comparisons and clipping by bound, none for what only moves; the rest by
    `_PER_ELEMENT`.
    """
    name = _plain_name(kind)
    if name in _MOVING:
        return 0
    written = sum(prod(shape) for shape in outputs[:1])
    if name in _PER_INPUT:
        return _PER_INPUT[name] * sum(prod(shape) for shape in inputs[:1])
    if "pool" in name:
        return window * written
    return _PER_ELEMENT[name] * written if name in _PER_ELEMENT else None


def spared_bytes(kind: str, given_bytes: Sequence[int], written_bytes: int) -> int:
    """Return the bytes of an operator's inputs that it does not read.

    An embedding, gather or slice reads the rows that it returns, so of each table no more bytes
    than it writes, and its indices; any other operator reads all. Source: XLA's HloCostAnalysis
    (HandleGather counts the indices and the output's size, HandleSlice the output's).
    """
    tables = _TAKING.get(_plain_name(kind), ())
    return sum(max(0, given_bytes[at] - written_bytes) for at in tables if at < len(given_bytes))


def summed_in(left: Sequence[int], out: Sequence[int]) -> int:
    """Return the products summed for one element of a matrix product: its left operand's K axis.

    `left` is (…, rows, K), broadcast or not, (…, K, rows) when transposed, or (K,); `out` is
    (…, rows, columns), without an axis where an operand is a vector (as in numpy.matmul).
    """
    if len(left) < 2 or len(out) < max(2, len(left)):
        return left[-1] if left else 0
    is_transposed = left[-2] != out[-2] and left[-1] == out[-2]
    return left[-2] if is_transposed else left[-1]


def product_flops(outputs: Shapes, summed: int) -> int:
    """Return the FLOPs of a convolution or matrix product: 2 for each of `summed` an element."""
    return 2 * prod(outputs[0]) * summed if outputs else 0


def recurrent_flops(sequence: Sequence[int], weights: Shapes) -> int:
    """Return the FLOPs of the products of an LSTM, GRU or RNN: 2 T B D g H (I + H).

    `sequence` is (T, B, I) or (B, T, I), of one step (B, I); `weights` are W (D, g H, I) and
    R (D, g H, H), of D directions and g gates (4, 3, 1): each weight is multiplied once a step and
    sample. Source: the equations of ONNX's LSTM, GRU and RNN; gates' activations, and that some
    sequences are shorter, do not count.
    """
    return 2 * prod(sequence[:-1]) * sum(prod(each) for each in weights)


def _plain_name(kind: str) -> str:
    return kind.lower().replace("_", "").replace("-", "").removesuffix("inplace")
