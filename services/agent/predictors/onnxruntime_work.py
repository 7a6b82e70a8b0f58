"""FLOPs and bytes of the nodes that ONNX Runtime executes, as their shapes tell. Pure.

A profile tells the shapes of what a node was given, but not of weights that were packed when the
session was opened, and in the layout NCHWc those of channels filled up to a block (8 or 16): the
first are read from the graph as it is executed, the second from the one that was given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from services.agent.predictors.natures import (
    Shapes,
    plain_flops,
    product_flops,
    recurrent_flops,
    spared_bytes,
    summed_in,
)
from services.agent.predictors.onnx_graph import Graph, Node, Weights
from services.agent.predictors.onnx_origins import BLOCKED, Origins

_RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
_ATTENTION = ("Attention", "QAttention", "MultiHeadAttention")
_SAME_SHAPE = ("DequantizeLinear", "QuantizeLinear", "Cast", "Identity")
_UNKNOWN = Node("", "", (), ())


@dataclass(frozen=True, slots=True)
class Ran:
    """What a profile told of a node: shapes and, where it knows, bytes."""

    kind: str
    inputs: Shapes
    outputs: Shapes
    activation_bytes: int | None = None
    parameter_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A node's FLOPs and bytes read, None where unknown; its channels where they were filled up."""

    flops: int | None
    bytes_read: int | None
    channels: int | None


@dataclass(slots=True)
class NodeWork:
    """The work of a model's executed nodes; asked in the order in which they run."""

    originals: Graph
    executed: Graph
    origins: Origins
    _nodes: dict[str, Node] = field(init=False, default_factory=dict)
    _makers: dict[str, Node] = field(init=False, default_factory=dict)
    #: channels without filling by tensor, of those in the blocked layout
    _channels: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Note the nodes by their names; those of bodies where no other has it."""
        for node in (*self.executed.nodes, *self.executed.inner):
            self._nodes.setdefault(node.name, node)
        self._makers = {out: node for node in self.originals.nodes for out in node.outputs}

    def of(self, name: str, ran: Ran) -> Work:
        """Return the work of a node, by what the profile told of it."""
        node = self._nodes.get(name, _UNKNOWN)
        stored = [self.executed.weights.get(each) for each in dict.fromkeys(node.inputs)]
        weights = [each for each in stored if each is not None]
        read = bytes_read(ran, sum(each.size_bytes for each in weights))
        kernel = self._kernel(node) if node.domain == BLOCKED and node.op_type == "Conv" else ()
        channels = self._unfilled(node, ran, kernel)
        if channels is not None:
            self._channels[node.outputs[0]] = channels
        shapes = [kernel] if kernel else [each.shape for each in weights]
        inputs = _with_channels(ran.inputs, self._channels.get(next(iter(node.inputs), "")))
        outputs = _with_channels(ran.outputs, channels)
        flops = flops_of(ran.kind, inputs, outputs, prod(node.window), shapes)
        is_filled = channels is not None and list(ran.outputs[0][1:2]) != [channels]
        return Work(flops, read, channels if is_filled else None)

    def _unfilled(self, node: Node, ran: Ran, kernel: Sequence[int]) -> int | None:
        """Return the channels that a node's output in the blocked layout has without filling."""
        if not (node.inputs and node.outputs and ran.inputs and ran.outputs):
            return None
        if node.domain == BLOCKED and node.op_type == "ReorderInput":
            is_last = node.sizes.get("channels_last") == (1,)
            return ran.inputs[0][-1 if is_last else 1]
        if kernel:
            return kernel[0]
        is_same = node.op_type not in ("Conv", "ReorderOutput")
        is_same = is_same and ran.inputs[0][1:2] == ran.outputs[0][1:2]
        return self._channels.get(node.inputs[0]) if is_same else None

    def _kernel(self, node: Node) -> Sequence[int]:
        """Return the shape of the weights that a convolution was given; of a norm (C, 1, 1, 1)."""
        found = [each for each in self.origins.get(node.name, ()) if len(each.inputs) > 1]
        convolutions = [each for each in found if each.op_type == "Conv"]
        norms = [each for each in found if each.op_type == "BatchNormalization"]
        if len(convolutions) > 1 or not (convolutions or norms):
            return ()
        weights = self._given((convolutions or norms)[0].inputs[1])
        if weights is None:
            return ()
        return weights.shape if convolutions else (*weights.shape, 1, 1, 1)

    def _given(self, tensor: str) -> Weights | None:
        """Return the original file's weights behind a tensor, through what keeps their shape."""
        for _ in _SAME_SHAPE:
            maker = self._makers.get(tensor)
            if tensor in self.originals.weights or maker is None or not maker.inputs:
                break
            if maker.op_type not in _SAME_SHAPE:
                return None
            tensor = maker.inputs[0]
        return self.originals.weights.get(tensor)


def bytes_read(ran: Ran, stored_bytes: int) -> int | None:
    """Return the bytes of a node's inputs; None where the profile does not tell them.

    Those of its weights are the profile's or, where some were packed, those in the file
    (`stored_bytes`); of a table only what is taken of it counts.
    """
    if ran.parameter_bytes is None or ran.activation_bytes is None:
        return None
    given = max(ran.parameter_bytes, stored_bytes) + ran.activation_bytes
    taken = prod(ran.outputs[0]) if ran.outputs else 0
    if not taken or not ran.written_bytes:
        return given
    # What is taken has the type of the table.
    sizes = [prod(shape) * ran.written_bytes // taken for shape in ran.inputs]
    return given - spared_bytes(ran.kind, sizes, ran.written_bytes)


def flops_of(
    kind: str, inputs: Shapes, outputs: Shapes, window: int = 1, weights: Shapes = ()
) -> int | None:
    """Return the FLOPs of an ONNX operator, one of ORT's own or quantized ones included.

    Weights of convolutions are (out, in / groups, kernel…), so what is summed for an element is
    all of them for one output; `window` is the elements under a pool's kernel, `weights` are
    those in the file, which `inputs` may lack.
    """
    kernels = [shape for shape in (*weights, *inputs[1:]) if len(shape) > 2]
    if kind.endswith(("Conv", "ConvInteger")) and kernels:
        return product_flops(outputs, prod(kernels[0][1:]))
    if kind.endswith("ConvTranspose") and kernels and outputs:
        # Each element of the input is spread over the weights of its channel.
        return product_flops(inputs[:1], prod(kernels[0][1:]))
    if kind in _RECURRENT and inputs:
        return recurrent_flops(inputs[0], kernels[:2]) if len(kernels) > 1 else None
    if kind in _ATTENTION and inputs and outputs:
        return attention_flops(inputs, outputs, [each for each in weights if len(each) == 2])
    is_product = "MatMul" in kind or kind.endswith("Gemm")
    if is_product and inputs and inputs[0] and outputs:
        return product_flops(outputs, summed_in(inputs[0], outputs[0]))
    return plain_flops(kind, inputs, outputs, window)


def attention_flops(inputs: Shapes, outputs: Shapes, weights: Shapes = ()) -> int | None:
    """Return the FLOPs of an attention's products: ONNX's, or ORT's own with or without weights.

    Of queries (…, L, E), keys (…, S, E) and results (…, L, V), heads side by side or not: 2 L S E
    for the scores and 2 L S V for their weighted sum; S is that of the present keys where they are
    an output. ORT's own with (D, E + E + V) weights gets (B, L, D) and multiplies each of them by
    each of its B L rows before. Source: Vaswani et al., 2017, section 3.2; softmax is not counted.
    """
    given, made = inputs[0], outputs[0]
    known = next((each for each in (*weights, *inputs[1:]) if len(each) > 1), None)
    if known is None or len(given) < 3:
        return None
    is_whole = len(known) == 2
    rows, projected = prod(given[:-1]), known[1] if is_whole else 0
    width = (projected - made[-1]) // 2 if is_whole else given[-1]
    present = [each[-2] for each in outputs[1:2] if len(each) > 3]
    keys = (present or [given[-2] if is_whole else known[-2]])[0]
    return 2 * rows * given[-1] * projected + 2 * rows * keys * (width + made[-1])


def _with_channels(shapes: Shapes, channels: int | None) -> Shapes:
    """Return shapes (N, C, ...) of which the first has other channels."""
    if channels is None or not shapes:
        return shapes
    return [(*shapes[0][:1], channels, *shapes[0][2:]), *shapes[1:]]
