"""FLOPs and bytes of the nodes that ONNX Runtime executes, computed from their shapes. Pure.

A profile has the shapes of a node's inputs, with two exceptions. Weights that were packed when the
session was opened are missing; their shapes come from the optimised graph. In the layout NCHWc
channels are padded to a block (8 or 16); their number comes from the original graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from mlscope.tracing.layer_attributes import (
    Shapes,
    plain_flops,
    product_flops,
    recurrent_flops,
    spared_bytes,
    summed_in,
)
from services.agent.predictors.onnxruntime.graph import Graph, Node
from services.agent.predictors.onnxruntime.origins import BLOCKED, Origins

_RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
_ATTENTION = ("Attention", "QAttention", "MultiHeadAttention")
_SAME_SHAPE = ("DequantizeLinear", "QuantizeLinear", "Cast", "Identity")
_UNKNOWN_NODE = Node("", "", (), ())


@dataclass(frozen=True, slots=True)
class ProfiledNode:
    """What a profile reports of a node: operator, shapes in elements, and bytes where known."""

    kind: str
    inputs: Shapes
    outputs: Shapes
    activation_bytes: int | None = None
    parameter_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A node's FLOPs and bytes read, None where unknown; `channels` where the layout pads them."""

    flops: int | None
    bytes_read: int | None
    channels: int | None


@dataclass(slots=True)
class NodeWork:
    """Computes the work of executed nodes; call `of` in the order in which they run.

    `originals`: the graph of the file; `executed`: the optimised one; `origins`: the original
    nodes of each executed one.
    """

    originals: Graph
    executed: Graph
    origins: Origins
    _nodes: dict[str, Node] = field(init=False, default_factory=dict)
    _makers: dict[str, Node] = field(init=False, default_factory=dict)
    #: channels without padding, by tensor in the blocked layout
    _channels: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Index the nodes by name; a node of a body only where no other has its name."""
        for node in (*self.executed.nodes, *self.executed.inner):
            self._nodes.setdefault(node.name, node)
        self._makers = {out: node for node in self.originals.nodes for out in node.outputs}

    def of(self, name: str, profiled: ProfiledNode) -> Work:
        """Return the work of the node of this `name`, from its profile."""
        node = self._nodes.get(name, _UNKNOWN_NODE)
        stored = self.executed.weights
        weights = [stored[tensor] for tensor in dict.fromkeys(node.inputs) if tensor in stored]
        read = bytes_read(profiled, sum(tensor.size_bytes for tensor in weights))
        kernel = self._kernel(node) if node.domain == BLOCKED and node.op_type == "Conv" else ()
        channels = self._unpadded_channels(node, profiled, kernel)
        if channels is not None:
            self._channels[node.outputs[0]] = channels
        shapes = [kernel] if kernel else [tensor.shape for tensor in weights]
        inputs = _with_channels(profiled.inputs, self._channels.get(next(iter(node.inputs), "")))
        outputs = _with_channels(profiled.outputs, channels)
        flops = flops_of(profiled.kind, inputs, outputs, prod(node.window), shapes)
        is_padded = channels is not None and list(profiled.outputs[0][1:2]) != [channels]
        return Work(flops, read, channels if is_padded else None)

    def _unpadded_channels(
        self, node: Node, profiled: ProfiledNode, kernel: Sequence[int]
    ) -> int | None:
        """Return the channels that a node's output in the blocked layout has without padding."""
        if not all((node.inputs, node.outputs, profiled.inputs, profiled.outputs)):
            return None
        if node.domain == BLOCKED and node.op_type == "ReorderInput":
            is_last = node.integers.get("channels_last") == (1,)
            return profiled.inputs[0][-1 if is_last else 1]
        if kernel:
            return kernel[0]
        is_same = node.op_type not in ("Conv", "ReorderOutput")
        is_same = is_same and profiled.inputs[0][1:2] == profiled.outputs[0][1:2]
        return self._channels.get(node.inputs[0]) if is_same else None

    def _kernel(self, node: Node) -> Sequence[int]:
        """Return the shape of a convolution's original weights; of a norm's (C, 1, 1, 1)."""
        origins = [origin for origin in self.origins.get(node.name, ()) if len(origin.inputs) > 1]
        convolutions = [origin for origin in origins if origin.op_type == "Conv"]
        norms = [origin for origin in origins if origin.op_type == "BatchNormalization"]
        if len(convolutions) > 1 or not (convolutions or norms):
            return ()
        tensor = (convolutions or norms)[0].inputs[1]
        # The weights may lie behind operators that keep their shape.
        for _ in _SAME_SHAPE:
            maker = self._makers.get(tensor)
            if tensor in self.originals.weights or maker is None or not maker.inputs:
                break
            if maker.op_type not in _SAME_SHAPE:
                return ()
            tensor = maker.inputs[0]
        weights = self.originals.weights.get(tensor)
        if weights is None:
            return ()
        return weights.shape if convolutions else (*weights.shape, 1, 1, 1)


def bytes_read(profiled: ProfiledNode, stored_bytes: int) -> int | None:
    """Return the bytes that a node reads; None where the profile lacks them.

    The bytes of its weights are the profile's or, where some were packed, those in the file
    (`stored_bytes`). Of a table only the rows that it returns count.
    """
    if profiled.parameter_bytes is None or profiled.activation_bytes is None:
        return None
    input_bytes = max(profiled.parameter_bytes, stored_bytes) + profiled.activation_bytes
    elements = prod(profiled.outputs[0]) if profiled.outputs else 0
    if not elements or not profiled.written_bytes:
        return input_bytes
    # The rows have the type of the table.
    sizes = [prod(shape) * profiled.written_bytes // elements for shape in profiled.inputs]
    return input_bytes - spared_bytes(profiled.kind, sizes, profiled.written_bytes)


def flops_of(
    kind: str, inputs: Shapes, outputs: Shapes, window: int = 1, weights: Shapes = ()
) -> int | None:
    """Return the FLOPs of an operator of ONNX or of ONNX Runtime; None when they are unknown.

    `kind`: its name; `inputs`, `outputs`: shapes in elements; `window`: elements under a pool's
    kernel; `weights`: shapes of those in the file, which `inputs` may lack. Weights of convolutions
    are (out, in / groups, kernel…), so an element of the output sums all weights of its channel.
    """
    kernels = [shape for shape in (*weights, *inputs[1:]) if len(shape) > 2]
    if kind.endswith(("Conv", "ConvInteger")) and kernels:
        return product_flops(outputs, prod(kernels[0][1:]))
    if kind.endswith("ConvTranspose") and kernels and outputs:
        # Each element of the input is multiplied by all weights of its channel.
        return product_flops(inputs[:1], prod(kernels[0][1:]))
    if kind in _RECURRENT and inputs:
        return recurrent_flops(inputs[0], kernels[:2]) if len(kernels) > 1 else None
    if kind in _ATTENTION and inputs and outputs:
        matrices = [shape for shape in weights if len(shape) == 2]
        return attention_flops(inputs, outputs, matrices)
    is_product = "MatMul" in kind or kind.endswith("Gemm")
    if is_product and inputs and inputs[0] and outputs:
        return product_flops(outputs, summed_in(inputs[0], outputs[0]))
    return plain_flops(kind, inputs, outputs, window)


def attention_flops(inputs: Shapes, outputs: Shapes, weights: Shapes = ()) -> int | None:
    """Return the FLOPs of an attention's products; None when they are unknown.

    `inputs`: shapes of the queries (…, L, E) and keys (…, S, E); `outputs`: that of the results
    (…, L, V), then of the present keys, whose S counts where they are an output. Heads lie side by
    side or in a dimension of their own. The scores take 2 L S E, their weighted sum 2 L S V. ORT's
    own operator has `weights` (D, E + E + V) and first multiplies its B L rows (B, L, D) by them.
    Source: Vaswani et al., 2017, section 3.2; softmax is not counted.
    """
    queries, results = inputs[0], outputs[0]
    second = next((shape for shape in (*weights, *inputs[1:]) if len(shape) > 1), None)
    if second is None or len(queries) < 3:
        return None
    rows = prod(queries[:-1])
    projected, width, keys = 0, queries[-1], second[-2]
    if len(second) == 2:  # weights
        projected, keys = second[1], queries[-2]
        width = (projected - results[-1]) // 2
    present = [shape[-2] for shape in outputs[1:2] if len(shape) > 3]
    keys = (present or [keys])[0]
    return 2 * rows * queries[-1] * projected + 2 * rows * keys * (width + results[-1])


def _with_channels(shapes: Shapes, channels: int | None) -> Shapes:
    """Return shapes (N, C, ...) with C of the first one replaced by `channels`."""
    if channels is None or not shapes:
        return shapes
    return [(*shapes[0][:1], channels, *shapes[0][2:]), *shapes[1:]]
