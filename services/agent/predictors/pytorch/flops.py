"""FLOPs of PyTorch's operators: PyTorch's own formulas, and ours for fused ones that lack one."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from mlscope.tracing.layer_attributes import Shapes, plain_flops

_PRODUCT = re.compile(
    r"mm$|mv$|dot|conv(?!ert)|linear|matmul|einsum|attention|attn|multi_head|transformer"
    r"|lstm|gru|rnn|linalg(?!_vector_norm)|cdist|fft|inverse"
)
_NO_PRODUCT = re.compile(r"^_?upsample|_thnn_fused")
"""Interpolation, and the part of a recurrent cell behind its products."""
_PACKED = re.compile(r"linear|conv(?!ert|_transpose)")
"""Products with packed weights, such as quantized ones."""


def operator_flops(
    kind: str, packet: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any], out: Any
) -> int | None:
    """Return an operator's FLOPs; None for a product without a formula.

    `kind`: the operator's name; `packet`: its overload packet; `inputs`, `kwargs`: its arguments;
    `out`: its result. An operator that only moves elements has 0. Source: PyTorch's flop_counter
    for its products, this module's formulas for fused ones, `plain_flops` for all others.
    """
    if packet in flop_registry:
        return int(flop_registry[packet](*inputs, **kwargs, out_val=out))
    formula = _FORMULAS.get(kind)
    if kind.startswith(("_scaled_dot_product", "scaled_dot_product")):
        formula = None if kind.endswith("backward") else scaled_product_flops
    if formula is not None and inputs:
        return formula(inputs)
    window = 1
    if "pool" in kind and len(inputs) > 1 and isinstance(inputs[1], list | tuple):
        for size in inputs[1]:
            window *= int(size)
    plain = plain_flops(kind, _shapes(inputs), _shapes(out), window)
    if plain is None and _PRODUCT.search(kind) and not _NO_PRODUCT.search(kind):
        return None
    return plain or 0


def has_formula(kind: str, packet: Any) -> bool:
    """Say whether an operator's FLOPs are known without running its decomposition."""
    plain = plain_flops(kind, ((),), ((),))
    return packet in flop_registry or kind in _FORMULAS or plain is not None


def scaled_product_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of attention of (…, L, E) queries, (…, S, E) keys and (…, S, V) values.

    For each sample and head, 2 L S E for the scores and 2 L S V for their weighted sum. Softmax is
    not counted, as in PyTorch's flop_counter (sdpa_flop_count).
    """
    query, key, value = (tuple(tensor.shape) for tensor in inputs[:3])
    heads = torch.Size(query[:-2]).numel()
    return int(2 * heads * query[-2] * key[-2] * (query[-1] + value[-1]))


def multi_head_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_native_multi_head_attention` (query, key, value, E, heads, …).

    For (B, L, E) queries and (B, S, E) keys: input projections 2 B (L + 2 S) E², scores and
    weighted sum 4 B L S E, output projection 2 B L E² (Vaswani et al., 2017, section 3.2.2).
    """
    batch, length, width = inputs[0].shape
    keys = inputs[1].shape[1]
    projections = 2 * batch * (length + 2 * keys + length) * width**2
    return int(projections + 4 * batch * length * keys * width)


def encoder_layer_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_transformer_encoder_layer_fwd` (source, E, heads, …).

    They are those of self-attention, and 4 B L E F for the two products with the (F, E) weights of
    the feed-forward part (argument 14 of the operator). Norms and activations are not counted.
    """
    source, inner = inputs[0], inputs[14].shape[0]
    forward = 4 * source.numel() * inner
    return multi_head_flops((source, source, source)) + int(forward)


def layer_steps_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `mkldnn_rnn_layer` (sequence, W, R, …): one layer in one direction.

    2 T B g H (I + H) for a (T, B, I) sequence, (g H, I) and (g H, H) weights and g gates (4 of an
    LSTM, 3 of a GRU): each weight is multiplied once for each step and sample (the equations of
    torch.nn.LSTM and GRU). The gates' activations are not counted.
    """
    return _steps_flops(inputs[0], inputs[1:3])


def all_steps_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_cudnn_rnn` and `miopen_rnn` (sequence, weights of all layers, …).

    As `layer_steps_flops`, for the weights of each layer and direction including projections;
    tensors of one axis are biases. A packed sequence is (steps of all samples, I).
    """
    return _steps_flops(inputs[0], [weights for weights in inputs[1] if weights.dim() > 1])


def matrix_vector_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `mv` (matrix, vector) and `addmv` (sum, matrix, vector): 2 M K."""
    return 2 * int(next(tensor for tensor in inputs if tensor.dim() == 2).numel())


def dot_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `dot` and `vdot`: a multiply and an add for each element."""
    return 2 * int(inputs[0].numel())


def bilinear_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_trilinear` (three tensors, axes to insert into each, …).

    Two multiplications and an addition for each term of the sum, over all axes. Source: the
    definition y = x1' A x2 in torch.nn.Bilinear, which is computed like this.
    """
    expanded = []
    for tensor, axes in zip(inputs, inputs[3:6], strict=False):
        sizes = list(tensor.shape)
        for axis in sorted(axes):
            sizes.insert(axis, 1)
        expanded.append(sizes)
    return 3 * int(prod(max(sizes) for sizes in zip_longest(*expanded, fillvalue=1)))


def packed_in(value: Any) -> list[torch.Tensor]:
    """Return the packed weights in an operator's arguments (those of quantized operators)."""
    weights = list[torch.Tensor]()
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.ScriptObject) and hasattr(leaf, "unpack"):
            parts = tree_leaves(leaf.unpack())
            weights += [part for part in parts if isinstance(part, torch.Tensor)]
    return weights


def packed_flops(kind: str, packed: Sequence[torch.Tensor], out: Any) -> int | None:
    """Return the FLOPs of a product with packed weights; None for any other operator.

    `kind`: the operator's name; `packed`: its weights (out, in / groups, kernel…); `out`: its
    result. Each element of it takes 2 FLOPs for each weight of its output channel, as in PyTorch's
    conv_flop_count and mm_flop.
    """
    if not (packed and isinstance(out, torch.Tensor) and _PACKED.match(kind)):
        return None
    return 2 * int(out.numel()) * int(prod(packed[0].shape[1:]))


def _steps_flops(sequence: Any, weights: Sequence[Any]) -> int:
    return 2 * int(prod(sequence.shape[:-1])) * sum(int(tensor.numel()) for tensor in weights)


_FORMULAS: Mapping[str, Callable[[Sequence[Any]], int]] = MappingProxyType(
    {
        "_native_multi_head_attention": multi_head_flops,
        "_transformer_encoder_layer_fwd": encoder_layer_flops,
        "mkldnn_rnn_layer": layer_steps_flops,
        "_cudnn_rnn": all_steps_flops,
        "miopen_rnn": all_steps_flops,
        "mv": matrix_vector_flops,
        "addmv": matrix_vector_flops,
        "dot": dot_flops,
        "vdot": dot_flops,
        "_trilinear": bilinear_flops,
    }
)


def _shapes(value: Any) -> Shapes:
    tensors = (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return tuple(tuple(tensor.shape) for tensor in tensors)
