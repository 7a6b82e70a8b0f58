"""FLOPs, bytes and originals of what ONNX Runtime executes, beside those worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.agent.predictors.onnxruntime.work import (
    ProfiledNode,
    attention_flops,
    bytes_read,
    flops_of,
)
from tests.services.agent.predictors.onnx_nets import (
    OWN,
    WHOLE,
    captured,
    model,
    node,
    place,
    tensor,
)

LEVELS = ("disable", "basic", "extended", "all")
SQUARE: dict[str, Any] = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
NORM = ("scale", "shift", "mean", "variance")


def convolutions(folder: Path, level: str, channels: int = 18) -> dict[str, dict[str, Any]]:
    """Return the layers of Conv, norm, Relu, MaxPool, Conv, Relu; nodes are not named as tensors.

    (2, 3, 16, 16), (2, channels, 16, 16), (2, channels, 8, 8) and (2, 5, 8, 8).
    """
    norm = [tensor(each, (channels,)) for each in NORM]
    body = model(
        [
            node("Conv", "x w1", "C1", "conv1", **SQUARE),
            node("BatchNormalization", "C1 scale shift mean variance", "B1", "norm"),
            node("Relu", "B1", "R1", "relu1"),
            node("MaxPool", "R1", "P", "pool", kernel_shape=(2, 2), strides=(2, 2)),
            node("Conv", "P w2", "C2", "conv2", **SQUARE),
            node("Relu", "C2", "y", "relu2"),
        ],
        [place("x", (2, 3, 16, 16))],
        [place("y", (2, 5, 8, 8))],
        [*norm, tensor("w1", (channels, 3, 3, 3)), tensor("w2", (5, channels, 3, 3))],
    )
    given = {"x": np.zeros((2, 3, 16, 16), np.float32)}
    return captured(folder, body, given, ["y"], graph_optimization=level)


def products(layers: dict[str, dict[str, Any]]) -> list[int]:
    return [each["flops"] for each in layers.values() if each["type"].endswith("Conv")]


def originals(layers: dict[str, dict[str, Any]]) -> list[list[str]]:
    return [each["original"] for each in layers.values() if each["original"]]


@pytest.mark.parametrize("level", LEVELS)
def test_channels_that_a_layout_fills_up_compute_nothing(tmp_path: Path, level: str) -> None:
    layers = convolutions(tmp_path, level)
    # 2 x (2 x 18 x 16 x 16) outputs of 3 x 9, and 2 x (2 x 5 x 8 x 8) of 18 x 9.
    assert products(layers) == [2 * 9216 * 27, 2 * 640 * 162]
    pool = next(each for each in layers.values() if each["type"] == "MaxPool")
    assert pool["flops"] == 4 * (2 * 18 * 8 * 8)


def test_a_layer_tells_its_channels_where_they_were_filled_up(tmp_path: Path) -> None:
    for each in convolutions(tmp_path, "all").values():
        is_filled = each["type"] == "Conv" and each["shape"][1] not in (18, 5)
        assert each.get("channels") == (18 if is_filled else None)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_between_filled_up_layers_computes_no_more(tmp_path: Path, level: str) -> None:
    body = model(
        [
            node("Conv", "x w", "C", "conv", **SQUARE),
            node("Sigmoid", "C", "S", "gate"),
            node("Mul", "C S", "M", "gated"),
            node("BatchNormalization", "M scale shift mean variance", "y", "norm"),
        ],
        [place("x", (2, 3, 8, 8))],
        [place("y", (2, 20, 8, 8))],
        [tensor("w", (20, 3, 3, 3)), *(tensor(each, (20,)) for each in NORM)],
    )
    given = {"x": np.zeros((2, 3, 8, 8), np.float32)}
    layers = list(captured(tmp_path, body, given, ["y"], graph_optimization=level).values())
    made, elements = [each for each in layers if each["original"]], 2 * 20 * 8 * 8
    # A norm in the blocked layout is a convolution of 1 by 1: 2 FLOPs an element, as ever.
    assert (made[0]["flops"], made[-1]["flops"]) == (2 * elements * 27, 2 * elements)
    gating = [each["flops"] for each in made[1:-1]]
    assert gating in ([4 * elements, elements], [6 * elements])


@pytest.mark.parametrize("channels", [18, 32])
def test_what_was_merged_belongs_to_the_layer_that_does_it(tmp_path: Path, channels: int) -> None:
    merged = [["conv1", "norm", "relu1"], ["pool"], ["conv2", "relu2"]]
    for level in ("extended", "all"):
        assert originals(convolutions(tmp_path, level, channels)) == merged
    alone = [["conv1"], ["norm"], ["relu1"], ["pool"], ["conv2"], ["relu2"]]
    assert originals(convolutions(tmp_path, "disable", channels)) == alone


def test_a_sum_and_its_activation_belong_to_the_convolution_that_adds(tmp_path: Path) -> None:
    body = model(
        [
            node("Conv", "x w1", "C1", "conv1", **SQUARE),
            node("Conv", "C1 w2", "C2", "conv2", **SQUARE),
            node("Add", "C2 C1", "A", "add"),
            node("Relu", "A", "R", "relu"),
            node("Conv", "R w2", "y", "conv3", **SQUARE),
        ],
        [place("x", (1, 3, 8, 8))],
        [place("y", (1, 32, 8, 8))],
        [tensor("w1", (32, 3, 3, 3)), tensor("w2", (32, 32, 3, 3))],
    )
    layers = captured(tmp_path, body, {"x": np.zeros((1, 3, 8, 8), np.float32)}, ["y"])
    if any(each["type"] == "Add" for each in layers.values()):
        pytest.skip("this CPU has no blocked layout")
    assert originals(layers) == [["conv1"], ["conv2", "add", "relu"], ["conv3"]]
    assert products(layers) == [2 * 2048 * 27, 2 * 2048 * 288, 2 * 2048 * 288]


def test_nodes_without_a_name_are_found_by_their_number(tmp_path: Path) -> None:
    body = model(
        [
            node("Constant", "", "c", value=tensor("", (1,))),
            node("Add", "x c", "A"),
            node("MaxPool", "A", "P", kernel_shape=(3, 3)),
            node("Softmax", "P", "y"),
        ],
        [place("x", (1, 2, 8, 8))],
        [place("y", (1, 2, 6, 6))],
    )
    layers = captured(tmp_path, body, {"x": np.zeros((1, 2, 8, 8), np.float32)}, ["y"])
    assert originals(layers) == [["A"], ["P"], ["y"]]
    pool = next(each for each in layers.values() if each["type"] == "MaxPool")
    assert pool["flops"] == 9 * (2 * 6 * 6)


@pytest.mark.parametrize("level", LEVELS)
def test_packed_weights_are_read_too(tmp_path: Path, level: str) -> None:
    body = model(
        [node("MatMul", "x w", "M", "product"), node("Add", "M bias", "y", "add")],
        [place("x", (2, 288))],
        [place("y", (2, 7))],
        [tensor("w", (288, 7)), tensor("bias", (7,))],
    )
    given = {"x": np.zeros((2, 288), np.float32)}
    layers = captured(tmp_path, body, given, ["y"], graph_optimization=level)
    product = next(iter(layers.values()))
    bias = 7 if product["type"] == "Gemm" else 0
    assert product["bytes_read"] == 4 * (2 * 288 + 288 * 7 + bias)
    assert product["flops"] == 2 * (2 * 7) * 288


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_a_recurrent_layer_multiplies_each_weight_once_a_step(
    tmp_path: Path, kind: str, gates: int, directions: int
) -> None:
    steps, batch, inner, wide = 5, 3, 8, 12
    rows, direction = gates * wide, "bidirectional" if directions == 2 else "forward"
    body = model(
        [node(kind, "x w r - - h", "y", "cells", hidden_size=wide, direction=direction)],
        [place("x", (steps, batch, inner))],
        [place("y", (steps, directions, batch, wide))],
        [
            tensor("w", (directions, rows, inner)),
            tensor("r", (directions, rows, wide)),
            tensor("h", (directions, batch, wide)),
        ],
    )
    layers = captured(tmp_path, body, {"x": np.zeros((steps, batch, inner), np.float32)}, ["y"])
    cells = layers["cells"]
    assert cells["flops"] == 2 * steps * batch * directions * gates * wide * (inner + wide)
    weights = directions * (rows * (inner + wide) + batch * wide)
    assert cells["bytes_read"] == 4 * (steps * batch * inner + weights)


def test_ort_s_own_attention_projects_scores_and_sums(tmp_path: Path) -> None:
    batch, length, wide = 3, 5, 8
    body = model(
        [node("Attention", "x w b", "y", "attend", domain=OWN, num_heads=2)],
        [place("x", (batch, length, wide))],
        [place("y", (batch, length, wide))],
        [tensor("w", (wide, 3 * wide)), tensor("b", (3 * wide,))],
    )
    given = {"x": np.zeros((batch, length, wide), np.float32)}
    (told,) = captured(tmp_path, body, given, ["y"]).values()
    rows = batch * length
    assert told["flops"] == 2 * rows * wide * 3 * wide + 2 * (2 * rows * length * wide)
    assert told["bytes_read"] == 4 * (rows * wide + wide * 3 * wide + 3 * wide)


def test_attention_of_given_keys_counts_them() -> None:
    side_by_side = attention_flops([[2, 5, 8], [2, 7, 8], [2, 7, 6]], [[2, 5, 6]])
    assert side_by_side == 2 * (2 * 5 * 7) * (8 + 6)
    heads = attention_flops([[2, 4, 5, 8], [2, 4, 7, 8]], [[2, 4, 5, 8]])
    assert heads == 2 * (2 * 4 * 5 * 7) * (8 + 8)
    kept = attention_flops([[2, 1, 8], [2, 1, 8]], [[2, 1, 8], [2, 4, 9, 2]])
    assert kept == 2 * (2 * 1 * 9) * (8 + 8)
    assert attention_flops([[2, 5, 4, 3, 2]], [[2, 5, 8]]) is None


def test_a_gather_reads_its_indices_and_the_rows_that_they_name(tmp_path: Path) -> None:
    body = model(
        [node("Gather", "table rows", "y", "words")],
        [place("rows", (2, 5), WHOLE)],
        [place("y", (2, 5, 16))],
        [tensor("table", (1000, 16))],
    )
    layers = captured(tmp_path, body, {"rows": np.zeros((2, 5), np.int64)}, ["y"])
    assert layers["words"]["bytes_read"] == 10 * 8 + 10 * 16 * 4


def test_what_only_moves_has_no_flops_and_its_bytes(tmp_path: Path) -> None:
    body = model(
        [
            node("Transpose", "x", "T", "turn", perm=(0, 2, 1)),
            node("Concat", "T T", "y", "join", axis=1),
        ],
        [place("x", (2, 3, 5))],
        [place("y", (2, 10, 3))],
    )
    given = {"x": np.zeros((2, 3, 5), np.float32)}
    layers = captured(tmp_path, body, given, ["y"], graph_optimization="disable")
    told = [(each["flops"], each["bytes_read"], each["bytes_written"]) for each in layers.values()]
    assert told == [(0, 120, 120), (0, 240, 240)]


def test_a_small_table_is_read_once() -> None:
    profiled = ProfiledNode("Gather", [[3, 16], [2, 5]], [[2, 5, 16]], 80, 192, 640)
    assert bytes_read(profiled, 192) == 80 + 192


def test_a_profile_without_sizes_leaves_bytes_unknown() -> None:
    assert bytes_read(ProfiledNode("MatMul", [[2, 3]], [[2, 4]]), 48) is None


def test_a_matrix_broadcast_over_a_batch_counts_for_each() -> None:
    assert flops_of("MatMul", [[4, 5], [3, 5, 6]], [[3, 4, 6]]) == 2 * (3 * 4 * 6) * 5
    assert flops_of("MatMul", [[3, 4, 5], [5, 6]], [[3, 4, 6]]) == 2 * (3 * 4 * 6) * 5


def test_a_recurrent_layer_without_weights_is_unknown() -> None:
    assert flops_of("LSTM", [[5, 3, 8]], [[5, 1, 3, 12]]) is None
