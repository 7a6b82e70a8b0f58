"""What a layer's spans say of it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.layer_attributes import (
    LayerAttributes,
    plain_flops,
    product_flops,
    recurrent_flops,
    spared_bytes,
    summed_in,
)


def test_what_is_unknown_is_left_out() -> None:
    told = json.loads(LayerAttributes(3, "Conv2d", [(1, 8)]).text())
    assert told == {"type": "Conv2d", "index": 3, "shape": [1, 8], "provider": "", "original": []}


def test_a_layer_of_several_outputs_has_a_shape_for_each() -> None:
    told = json.loads(LayerAttributes(0, "Split", [(1, 2), (1, 3)], input_shapes=[(1, 5)]).text())
    assert told["shape"] == [[1, 2], [1, 3]]
    assert told["input_shapes"] == [[1, 5]]


def test_no_flops_are_not_unknown_flops() -> None:
    assert json.loads(LayerAttributes(0, "view", flops=0, memory_bytes=0).text())["flops"] == 0


@pytest.mark.parametrize(
    ("kind", "window", "flops"),
    [
        ("Relu", 1, 12),
        ("relu_", 1, 12),
        ("Clip", 1, 24),
        ("MaxPool", 9, 108),
        ("ReduceMean", 1, 48),
        ("GlobalAveragePool", 1, 48),
        ("NonMaxSuppression", 1, None),
        ("Transpose", 1, 0),
        ("ReorderOutput", 1, 0),
        ("GatherV2", 1, 0),
        ("Concatenation", 1, 0),
    ],
)
def test_plain_operators_count_by_element(kind: str, window: int, flops: int | None) -> None:
    assert plain_flops(kind, [(4, 12)], [(3, 4)], window) == flops


def test_a_product_counts_two_for_a_multiply_and_add() -> None:
    # 8 channels of 5 x 5 from 3 channels by 3 x 3 kernels
    assert product_flops([(1, 8, 5, 5)], 3 * 3 * 3) == 2 * 8 * 25 * 27
    assert product_flops([], 27) == 0


@pytest.mark.parametrize(
    ("left", "out", "summed"),
    [
        ((4, 5), (4, 6), 5),
        ((5, 4), (4, 6), 5),
        ((4, 5), (3, 4, 6), 5),
        ((1, 2, 4, 5), (3, 2, 4, 6), 5),
        ((3, 4, 5), (3, 4), 5),
        ((5,), (6,), 5),
        ((5,), (3, 6), 5),
        ((), (6,), 0),
    ],
)
def test_a_product_sums_over_its_left_operand_s_last_axis(
    left: tuple[int, ...], out: tuple[int, ...], summed: int
) -> None:
    assert summed_in(left, out) == summed


@pytest.mark.parametrize(
    ("kind", "given", "spared"),
    [
        ("Gather", [64_000, 80], 64_000 - 640),
        ("index_select", [64_000, 80], 64_000 - 640),
        ("dynamic-slice", [64_000], 64_000 - 640),
        ("embedding", [320, 80], 0),
        ("EmbedLayerNormalization", [40, 40, 64_000, 3200, 128], 63_360 + 2560),
        ("Add", [64_000, 640], 0),
        ("Gather", [], 0),
    ],
)
def test_a_table_of_which_rows_are_taken_is_not_read_whole(
    kind: str, given: list[int], spared: int
) -> None:
    assert spared_bytes(kind, given, 640) == spared


SIZES = st.integers(1, 5)


@given(st.lists(SIZES, max_size=2), SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_products_sum_as_many_elements_as_numpys(
    batch: list[int], rows: int, summed: int, columns: int, is_row: bool, is_column: bool
) -> None:
    left = (summed,) if is_row else (*batch, rows, summed)
    right = (summed,) if is_column else (*batch, summed, columns)
    output = np.matmul(np.zeros(left), np.zeros(right)).shape
    assert summed_in(left, output) == summed
    if output:
        flops = 2 * summed * int(np.prod(output))
        assert product_flops([output], summed_in(left, output)) == flops


def test_a_recurrent_layer_multiplies_each_weight_once_per_step_and_sample() -> None:
    # An LSTM of 5 units over 3 steps of 2 samples of 4: W is 4 gates x 5 x 4, R 4 x 5 x 5.
    assert recurrent_flops((3, 2, 4), [(1, 20, 4), (1, 20, 5)]) == 2 * 3 * 2 * (80 + 100)
    # Of both directions twice as many; one step has no axis of time.
    assert recurrent_flops((3, 2, 4), [(2, 20, 4), (2, 20, 5)]) == 2 * 2160
    assert recurrent_flops((2, 4), [(1, 20, 4), (1, 20, 5)]) == 720


def test_only_the_first_output_and_input_count() -> None:
    assert plain_flops("Add", [(9,)], [(2, 3), (100,)]) == 6
    assert plain_flops("ReduceSum", [(2, 3), (100,)], [(1,)]) == 6
    assert plain_flops("Relu", [], []) == 0
    assert plain_flops("adaptive_avg_pool2d", [(7, 7)], [(1, 1)], window=49) == 49


def test_all_that_is_known_of_a_layer_is_said() -> None:
    layer = LayerAttributes(
        2,
        "Conv",
        [(1, 8)],
        provider="CUDAExecutionProvider",
        original=("a", "b"),
        memory_bytes=7,
        memory_kind="outputs",
        bytes_read=3,
        bytes_written=0,
        extra={"precision": "bf16", "left": None},
    )
    assert json.loads(layer.text()) == {
        "type": "Conv",
        "index": 2,
        "shape": [1, 8],
        "provider": "CUDAExecutionProvider",
        "original": ["a", "b"],
        "memory_bytes": 7,
        "memory_kind": "outputs",
        "bytes_read": 3,
        "bytes_written": 0,
        "precision": "bf16",
    }
