"""FLOPs of PyTorch's operators: its own formulas, and those of fused ones that it has none for."""

import re
from collections.abc import Callable, Mapping, Sequence
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


def operator_flops(
    kind: str, packet: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any], out: Any
) -> int | None:
    """Return an operator's FLOPs, None for a product without a formula; what only moves has 0.

    Source: PyTorch's flop_counter for its products, this module's formulas for fused ones, and
    `plain_flops` for the rest.
    """
    if packet in flop_registry:
        return int(flop_registry[packet](*inputs, **kwargs, out_val=out))
    if (formula := _formula(kind)) is not None:
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


_FORMULAS: Mapping[str, Callable[[Sequence[Any]], int]] = MappingProxyType(
    {
        "_native_multi_head_attention": multi_head_flops,
        "_transformer_encoder_layer_fwd": encoder_layer_flops,
    }
)


def _formula(kind: str) -> Callable[[Sequence[Any]], int] | None:
    if kind.startswith(("_scaled_dot_product", "scaled_dot_product")):
        return None if kind.endswith("backward") else scaled_product_flops
    return _FORMULAS.get(kind)


def _shapes(value: Any) -> Shapes:
    tensors = (each for each in tree_leaves(value) if isinstance(each, torch.Tensor))
    return tuple(tuple(each.shape) for each in tensors)
