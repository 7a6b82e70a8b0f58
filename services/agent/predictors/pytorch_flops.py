"""FLOPs of PyTorch's operators: its own formulas, and those of fused ones that it has none for."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from services.agent.predictors.natures import Shapes, plain_flops

_PRODUCT = re.compile(
    r"mm$|mv$|dot|conv(?!ert)|linear|matmul|einsum|attention|attn|multi_head|transformer"
    r"|lstm|gru|rnn|linalg(?!_vector_norm)|cdist|fft|inverse"
)
_NO_PRODUCT = re.compile(r"^_?upsample|_thnn_fused")
"""Interpolation, and what is left of a cell when its products are done."""
_PACKED = re.compile(r"linear|conv(?!ert|_transpose)")
"""Products that take their weights packed, as quantized ones do."""


def operator_flops(
    kind: str, packet: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any], out: Any
) -> int | None:
    """Return an operator's FLOPs, None for a product without a formula; what only moves has 0.

    Source: PyTorch's flop_counter for its products, this module's formulas for fused ones, and
    `plain_flops` for the rest.
    """
    if packet in flop_registry:
        return int(flop_registry[packet](*inputs, **kwargs, out_val=out))
    if (formula := _formula(kind)) is not None and inputs:
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
    """Whether an operator's FLOPs are known without running what it is made of."""
    plain = plain_flops(kind, ((),), ((),))
    return packet in flop_registry or kind in _FORMULAS or plain is not None


def scaled_product_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of attention of (…, L, E) queries, (…, S, E) keys and (…, S, V) values.

    2 L S E for the scores and 2 L S V for their weighted sum, a batch and head; softmax is not
    counted, as PyTorch's flop_counter (sdpa_flop_count) does not.
    """
    query, key, value = (tuple(each.shape) for each in inputs[:3])
    heads = torch.Size(query[:-2]).numel()
    return int(2 * heads * query[-2] * key[-2] * (query[-1] + value[-1]))


def multi_head_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_native_multi_head_attention` (query, key, value, E, heads, …).

    Of (B, L, E) queries and (B, S, E) keys: projections in 2 B (L + 2 S) E², scores and weighted
    sum 4 B L S E, projection out 2 B L E² (Vaswani et al., 2017, section 3.2.2).
    """
    batch, length, width = inputs[0].shape
    keys = inputs[1].shape[1]
    projections = 2 * batch * (length + 2 * keys + length) * width**2
    return int(projections + 4 * batch * length * keys * width)


def encoder_layer_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_transformer_encoder_layer_fwd` (source, E, heads, …).

    Self-attention, and 4 B L E F for the two products with the (F, E) weights of the feed-forward
    part, at place 14 of the operator's schema; norms and activations are not counted.
    """
    source, inner = inputs[0], inputs[14].shape[0]
    forward = 4 * source.numel() * inner
    return multi_head_flops((source, source, source)) + int(forward)


def layer_steps_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `mkldnn_rnn_layer` (sequence, W, R, …): one layer in one direction.

    2 T B g H (I + H) of a (T, B, I) sequence, (g H, I) and (g H, H) weights and g gates (4 of an
    LSTM, 3 of a GRU): each weight is multiplied once a step and sample (the equations of
    torch.nn.LSTM and GRU). Gates' activations are not counted.
    """
    return _steps_flops(inputs[0], inputs[1:3])


def all_steps_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_cudnn_rnn` and `miopen_rnn` (sequence, weights of all layers, …).

    As `layer_steps_flops` for the weights of each layer and direction, projections included; those
    of one axis are biases. A packed sequence is (steps of all samples, I).
    """
    return _steps_flops(inputs[0], [each for each in inputs[1] if each.dim() > 1])


def matrix_vector_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `mv` (matrix, vector) and `addmv` (sum, matrix, vector): 2 M K."""
    return 2 * int(next(each for each in inputs if each.dim() == 2).numel())


def dot_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `dot` and `vdot`: a multiply and add an element."""
    return 2 * int(inputs[0].numel())


def bilinear_flops(inputs: Sequence[Any]) -> int:
    """Return the FLOPs of `_trilinear` (three tensors, axes put into each, …).

    Two multiplications and an addition for each term of the sum, over all axes: the definition
    y = x1' A x2 of torch.nn.Bilinear, which computes them so.
    """
    spread = [_with_axes(each.shape, axes) for each, axes in zip(inputs, inputs[3:6], strict=False)]
    return 3 * prod(max(sizes) for sizes in zip_longest(*spread, fillvalue=1))


def packed_in(value: Any) -> list[torch.Tensor]:
    """Return the weights that arguments hold packed (those of quantized operators)."""
    found = list[torch.Tensor]()
    for each in tree_leaves(value):
        if isinstance(each, torch.ScriptObject) and hasattr(each, "unpack"):
            parts = tree_leaves(each.unpack())
            found += [part for part in parts if isinstance(part, torch.Tensor)]
    return found


def packed_flops(kind: str, packed: Sequence[torch.Tensor], out: Any) -> int | None:
    """Return the FLOPs of a product with packed (out, in / groups, kernel…) weights; else None.

    2 for each of those of one output, an element: PyTorch's conv_flop_count and mm_flop.
    """
    if not (packed and isinstance(out, torch.Tensor) and _PACKED.match(kind)):
        return None
    return 2 * int(out.numel()) * prod(packed[0].shape[1:])


def _steps_flops(sequence: Any, weights: Sequence[Any]) -> int:
    return 2 * int(prod(sequence.shape[:-1])) * sum(int(each.numel()) for each in weights)


def _with_axes(shape: Sequence[int], axes: Sequence[int]) -> Sequence[int]:
    """Return a shape with axes of 1 put in at places, the least first."""
    sizes = list(shape)
    for axis in sorted(axes):
        sizes.insert(axis, 1)
    return sizes


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


def _formula(kind: str) -> Callable[[Sequence[Any]], int] | None:
    if kind.startswith(("_scaled_dot_product", "scaled_dot_product")):
        return None if kind.endswith("backward") else scaled_product_flops
    return _FORMULAS.get(kind)


def _shapes(value: Any) -> Shapes:
    tensors = (each for each in tree_leaves(value) if isinstance(each, torch.Tensor))
    return tuple(tuple(each.shape) for each in tensors)
