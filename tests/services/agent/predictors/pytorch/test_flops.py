"""FLOPs of PyTorch's fused operators, beside those worked out by hand."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from services.agent.predictors.pytorch.flops import operator_flops, packed_flops  # noqa: E402
from services.agent.predictors.pytorch.tracing import probe as pytorch_probe  # noqa: E402
from services.agent.predictors.pytorch.tracing.probe import Operator, probe  # noqa: E402

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


@pytest.mark.parametrize("kind", ["quantized_lstm", "linear_dynamic", "deform_conv2d", "_int_mm"])
def test_a_product_without_a_formula_is_unknown(kind: str) -> None:
    assert operator_flops(kind, None, (), {}, ()) is None


@pytest.mark.parametrize("kind", ["view", "upsample_bilinear2d", "_convert_indices", "embedding"])
def test_what_is_no_product_has_none(kind: str) -> None:
    assert operator_flops(kind, None, (), {}, ()) == 0


STEPS, INPUTS, CELLS = 5, 8, 12


def counted(model: Any, *given: Any) -> tuple[int | None, int]:
    """Return the FLOPs and the bytes read of all operators."""
    done = operators_of(model, lambda: model(*given))
    flops = [each.flops for each in done]
    total = None if None in flops else sum(each or 0 for each in flops)
    return total, sum(each.bytes_read for each in done)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_multiplies_each_weight_once_a_step(directions: int, layers: int) -> None:
    model = torch.nn.LSTM(INPUTS, CELLS, layers, bidirectional=directions == 2).eval()
    wide = [INPUTS, *[directions * CELLS] * (layers - 1)]
    weights = [directions * 4 * CELLS * (each + CELLS) for each in wide]
    flops, _ = counted(model, torch.zeros(STEPS, BATCH, INPUTS))
    assert flops == 2 * STEPS * BATCH * sum(weights)


def test_a_gru_s_products_are_counted_one_by_one() -> None:
    model = torch.nn.GRU(INPUTS, CELLS).eval()
    flops, _ = counted(model, torch.zeros(STEPS, BATCH, INPUTS))
    products = 2 * STEPS * BATCH * 3 * CELLS * (INPUTS + CELLS)
    # What is elementwise comes on top: gates, and their sums.
    assert products < (flops or 0) < 1.3 * products


@pytest.mark.parametrize(("gates", "projected"), [(4, 0), (4, 6), (3, 0)])
@pytest.mark.parametrize("is_packed", [False, True])
def test_cudnn_s_cells_count_all_layers_and_directions(
    gates: int, projected: int, is_packed: bool
) -> None:
    more = {"proj_size": projected} if projected else {}
    kind = {4: torch.nn.LSTM, 3: torch.nn.GRU}[gates]
    model = kind(INPUTS, CELLS, 2, bidirectional=True, **more)
    given = (STEPS * BATCH, INPUTS) if is_packed else (STEPS, BATCH, INPUTS)
    flops = operator_flops("_cudnn_rnn", None, (torch.zeros(given), model._flat_weights), {}, ())
    out = projected or CELLS
    each = [gates * CELLS * (wide + out) + projected * CELLS for wide in (INPUTS, 2 * out)]
    assert flops == 2 * STEPS * BATCH * 2 * sum(each)


def test_vectors_and_their_products_count_two_an_element() -> None:
    matrix, vector = torch.zeros(4, 5), torch.zeros(5)
    assert counted(torch.mv, matrix, vector) == (2 * 4 * 5, 4 * 25)
    assert counted(torch.addmv, torch.zeros(4), matrix, vector)[0] == 2 * 4 * 5
    assert counted(torch.dot, vector, torch.zeros(5)) == (2 * 5, 4 * 10)


def test_a_bilinear_layer_counts_three_a_term() -> None:
    model = torch.nn.Bilinear(4, 5, 6, bias=False)
    assert counted(model, torch.zeros(3, 4), torch.zeros(3, 5))[0] == 3 * (3 * 6 * 4 * 5)


@pytest.mark.filterwarnings("ignore")
def test_weights_that_are_packed_count(monkeypatch: pytest.MonkeyPatch) -> None:
    float_linear = torch.nn.Sequential(torch.nn.Linear(8, 4))
    model = torch.ao.quantization.quantize_dynamic(float_linear, {torch.nn.Linear})
    given = torch.zeros(2, 8)
    (product,) = [each for each in operators_of(model, lambda: model(given)) if each.flops]
    assert product.flops == 2 * (2 * 4) * 8
    # Weights of one byte, a bias of four; inputs of four.
    assert product.bytes_read == 4 * 2 * 8 + 8 * 4 + 4 * 4
    monkeypatch.setattr(pytorch_probe, "packed_in", lambda _: [])
    (unseen,) = [each for each in operators_of(model, lambda: model(given)) if each.flops is None]
    assert product.allocated_bytes == unseen.allocated_bytes


def test_packed_kernels_count_as_others() -> None:
    # 2 x 8 x 5 x 5 outputs of 3 channels by 3 x 3
    weights, out = torch.zeros(8, 3, 3, 3), torch.zeros(2, 8, 5, 5)
    assert packed_flops("conv2d_relu", [weights], out) == 2 * 400 * 27
    assert packed_flops("conv_transpose2d", [weights], out) is None
    assert packed_flops("conv2d", [], out) is None


ROWS, TABLE = torch.zeros(2, 5, dtype=torch.long), torch.zeros(1000, 16)
TAKEN = 10 * 8 + 10 * 16 * 4
"""Indices of eight bytes and ten rows of 16 floats."""


@pytest.mark.parametrize(
    ("take", "bytes_read"),
    [
        (lambda: torch.nn.functional.embedding(ROWS, TABLE), TAKEN),
        (lambda: TABLE[ROWS], TAKEN),
        (lambda: TABLE.index_select(0, ROWS.flatten()), TAKEN),
        (lambda: TABLE.gather(0, ROWS), 10 * 8 + 10 * 4),
        (lambda: TABLE.take(ROWS), 10 * 8 + 10 * 4),
        (lambda: torch.nn.functional.embedding(ROWS, TABLE[:3].clone()), 2 * 192 + 80),
    ],
)
def test_a_table_is_read_by_its_rows(take: Callable[[], Any], bytes_read: int) -> None:
    done = operators_of(torch.nn.Identity(), take)
    assert sum(each.bytes_read for each in done) == bytes_read


def test_a_bag_of_rows_reads_all_of_them() -> None:
    done = operators_of(
        torch.nn.Identity(), lambda: torch.nn.functional.embedding_bag(ROWS, TABLE, mode="sum")
    )
    (bag,) = [each for each in done if each.name == "aten::embedding_bag"]
    # Two offsets beside the ten indices.
    assert bag.bytes_read == 2 * 8 + TAKEN


def test_what_is_repeated_in_memory_is_read_once() -> None:
    row, rows = torch.zeros(1, 8), torch.zeros(4, 8)
    assert counted(lambda: row.expand(4, 8) + rows)[1] == 4 * (8 + 32)
    assert counted(lambda: rows * rows)[1] == 4 * 32
    assert counted(lambda: rows[:2] * rows[2:])[1] == 4 * 32
    assert counted(lambda: rows[:2] * rows[:2])[1] == 4 * 32


def test_tensors_without_a_storage_lie_alone() -> None:
    sparse, dense = torch.eye(4).to_sparse(), torch.ones(4, 3)
    found = operators_of(None, lambda: torch.sparse.mm(sparse, dense))
    (product,) = (each for each in found if each.name == "aten::_sparse_mm")
    assert product.input_shapes == ((4, 4), (4, 3))
    assert (product.bytes_written, product.new_bytes) == (48, 48)
