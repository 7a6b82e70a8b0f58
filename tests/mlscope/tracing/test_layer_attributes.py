"""What a layer's spans say of it."""

import json

import pytest

from mlscope.tracing.layer_attributes import (
    LayerAttributes,
    plain_flops,
    product_flops,
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
