"""Static attributes of a layer: the JSON attributes of its spans, the same in every call."""

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
    "reshape", "transpose", "flatten", "squeeze", "unsqueeze", "concat", "split", "slice", "pad",
    "gather", "gathernd", "gatherelements", "scatternd", "scatterelements", "identity", "cast",
    "expand", "tile", "shape", "size", "constantofshape", "depthtospace", "spacetodepth",
    "where", "reversesequence", "onehot", "dropout", "reorderinput", "reorderoutput",
    "memcpyfromhost", "memcpytohost", "concatv2", "stridedslice", "gatherv2", "resourcegather",
    "pack", "unpack", "expanddims", "fill", "zeroslike", "oneslike", "padv2", "mirrorpad",
    "broadcastto", "splitv", "select", "selectv2", "bitcast", "spacetobatchnd", "batchtospacend",
    "reorder", "concatenation", "broadcast", "convert", "shapeof", "output", "result",
})  # fmt: skip
"""Operators that only move, cast or select elements, in ONNX, TensorFlow and OpenVINO."""
_TABLE_INPUTS: Mapping[str, Sequence[int]] = {
    "gather": (0,), "gatherv2": (0,), "gathernd": (0,), "gatherelements": (0,),
    "resourcegather": (0,), "embedding": (0,), "index": (0,), "indexselect": (0,), "take": (0,),
    "slice": (0,), "stridedslice": (0,), "dynamicslice": (0,), "embedlayernormalization": (2, 3, 4),
}  # fmt: skip
"""Operators that read a table by indices, and the places of the tables among their inputs."""


@dataclass(frozen=True, slots=True)
class LayerAttributes:
    """A layer's attributes; unknown ones are None and left out.

    `flops` counts 2 for a multiply and add. Bytes are those of the tensors read and written, and of
    a table only those of the rows read: a lower bound of the traffic. `shapes` are those of its
    outputs, in elements.
    """

    index: int
    type: str
    shapes: Shapes = ()
    input_shapes: Shapes | None = None
    provider: str = ""
    original: Sequence[str] = ()
    memory_bytes: int | None = None
    #: measured: requested from the framework's allocator (with ONNX Runtime, what stayed in use);
    #: or outputs: the bytes of the new tensors that it returns
    memory_kind: str = ""
    flops: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> bytes:
        """Return the attributes as JSON text, as its spans have them."""
        shapes = [list(shape) for shape in self.shapes]
        attributes = {
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
            **self.extra,
        }
        return json_text({name: value for name, value in attributes.items() if value is not None})


def plain_flops(kind: str, inputs: Shapes, outputs: Shapes, window: int = 1) -> int | None:
    """Return the FLOPs of an operator without products; None for an unknown one.

    `kind`: its name. `inputs`, `outputs`: shapes. `window`: the number of elements under a pool's
    kernel. Source: one operation per element for arithmetic, comparisons and clipping by a bound,
    none for operators that only move elements; the others by `_PER_ELEMENT`.
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


def spared_bytes(kind: str, input_bytes: Sequence[int], written_bytes: int) -> int:
    """Return the bytes of an operator's inputs that it does not read.

    An embedding, gather or slice reads its indices and the rows that it returns, so of each table
    no more bytes than it writes; any other operator reads all inputs. Source: XLA's HloCostAnalysis
    (HandleGather counts the indices and the output's size, HandleSlice the output's).

    `kind`: the operator's name. `input_bytes`: the size of each input. `written_bytes`: the size of
    its output.
    """
    tables = _TABLE_INPUTS.get(_plain_name(kind), ())
    return sum(max(0, input_bytes[at] - written_bytes) for at in tables if at < len(input_bytes))


def summed_in(lhs: Sequence[int], output: Sequence[int]) -> int:
    """Return the products summed for one element of a matrix product: its left operand's K axis.

    `lhs`: its shape (…, rows, K), broadcast or not, (…, K, rows) when transposed, or (K,).
    `output`: (…, rows, columns), without an axis where an operand is a vector (see numpy.matmul).
    """
    if len(lhs) < 2 or len(output) < max(2, len(lhs)):
        return lhs[-1] if lhs else 0
    is_transposed = lhs[-2] != output[-2] and lhs[-1] == output[-2]
    return lhs[-2] if is_transposed else lhs[-1]


def product_flops(outputs: Shapes, summed: int) -> int:
    """Return the FLOPs of a convolution or matrix product: 2 `summed` per element of the output."""
    return 2 * prod(outputs[0]) * summed if outputs else 0


def recurrent_flops(sequence: Sequence[int], weights: Shapes) -> int:
    """Return the FLOPs of the products of an LSTM, GRU or RNN: 2 T B D g H (I + H).

    `sequence` is (T, B, I) or (B, T, I), of one step (B, I); `weights` are W (D, g H, I) and
    R (D, g H, H), of D directions and g gates (4, 3, 1): each weight is multiplied once per step
    and sample. Source: the equations of ONNX's LSTM, GRU and RNN, without the activations of gates,
    and as if all sequences had the same length.
    """
    return 2 * prod(sequence[:-1]) * sum(map(prod, weights))


def _plain_name(kind: str) -> str:
    return kind.lower().replace("_", "").replace("-", "").removesuffix("inplace")
