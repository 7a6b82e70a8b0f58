"""FLOPs of PyTorch's fused operators, beside those worked out by hand."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from services.agent.predictors.pytorch_flops import operator_flops  # noqa: E402
from services.agent.predictors.pytorch_probe import Operator, probe  # noqa: E402

BATCH, LENGTH, WIDTH, INNER = 3, 5, 8, 16
TOKENS = BATCH * LENGTH
ATTENTION = 2 * TOKENS * WIDTH * (4 * WIDTH) + 2 * (2 * TOKENS * LENGTH * WIDTH)
"""Four projections of 8 to 8, scores, and their weighted sum."""
ENCODER = ATTENTION + 2 * (2 * TOKENS * WIDTH * INNER)


def operators_of(model: Any, call: Callable[[], Any]) -> list[Operator]:
    with torch.inference_mode():
        return list(probe(model, call).operators)


def test_attention_s_fast_path_counts_what_its_parts_would() -> None:
    model = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True).eval()
    given = torch.zeros(BATCH, LENGTH, WIDTH)
    (fused,) = operators_of(model, lambda: model(given, given, given))
    assert fused.name == "aten::_native_multi_head_attention"
    assert fused.flops == ATTENTION


def test_an_encoder_layer_s_fast_path_counts_what_its_parts_would() -> None:
    model = torch.nn.TransformerEncoderLayer(WIDTH, 2, INNER, batch_first=True).eval()
    given = torch.zeros(BATCH, LENGTH, WIDTH)
    (fused,) = operators_of(model, lambda: model(given))
    assert fused.name == "aten::_transformer_encoder_layer_fwd"
    assert fused.flops == ENCODER


def test_scaled_products_count_with_every_kernel() -> None:
    query, keys = torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 7, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    done = operators_of(torch.nn.Identity(), lambda: attend(query, keys, keys))
    assert sum(each.flops or 0 for each in done) == 2 * (2 * 2 * 5 * 7 * 4)


@pytest.mark.parametrize("kind", ["mkldnn_rnn_layer", "linear_dynamic", "deform_conv2d", "_int_mm"])
def test_a_product_without_a_formula_is_unknown(kind: str) -> None:
    assert operator_flops(kind, None, (), {}, ()) is None


@pytest.mark.parametrize("kind", ["view", "upsample_bilinear2d", "_convert_indices", "embedding"])
def test_what_is_no_product_has_none(kind: str) -> None:
    assert operator_flops(kind, None, (), {}, ()) == 0
