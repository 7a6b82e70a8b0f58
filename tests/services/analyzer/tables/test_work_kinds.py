"""Kinds of work by the types that frameworks give."""

from typing import Any

import pytest

from services.analyzer.tables.work_kinds import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import kernel_run, layer_run, model_run, named


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("convolution", ("Conv2D", "DepthwiseConv2dNative", "FusedConv", "conv_general_dilated")),
        ("attention", ("MultiHeadAttention", "scaled_dot_product_attention", "SDPA")),
        ("matrix product", ("Gemm", "MatMul", "Linear", "FullyConnected", "fc")),
        ("normalisation", ("BatchNorm2d", "LayerNormalization")),
        ("pooling", ("MaxPool", "AdaptiveAvgPool2d")),
        ("matrix product", ("dot", "dot fusion", "aten::addmm", "aten::mm", "aten::baddbmm")),
        ("pooling", ("reduce-window", "reduce-window fusion")),
        ("other", ("Relu", "Where", "Convert", "convert_element_type", "custom-call", "Comm")),
        ("unknown", ("", " ")),
    ],
)
def test_types_of_every_framework_have_their_kind(kind: str, types: tuple[str, ...]) -> None:
    layers = [(n, f"l{n}", 100) for n in range(len(types))]
    device_attributes = [[n, f"l{n}", of] for n, of in enumerate(types)]
    (row,) = rows_of(table_of(ANALYSIS, layer_run(*layers, layers=device_attributes)))
    assert (row["kind"], row["layers"], row["time"]) == (kind, len(types), 100.0 * len(types))


@pytest.mark.parametrize(
    ("kind", "of", "name"),
    [
        ("convolution", "custom-call", "conv/conv_general_dilated"),
        ("convolution", "loop fusion", "block/conv_general_dilated"),
        ("matrix product", "custom-call", "dense0/dot_general"),
        ("attention", "custom-call", "block/dot_product_attention_fwd"),
        # What its author called a scope, or a weight, does not say what is done with it.
        ("other", "transpose fusion", "params['conv1']['kernel']"),
        ("other", "add fusion", "conv1/add"),
        ("other", "relu", "conv_general_dilated"),
    ],
)
def test_compiled_layers_are_told_by_the_primitive_in_their_name(
    kind: str, of: str, name: str
) -> None:
    (row,) = rows_of(table_of(ANALYSIS, layer_run((0, name, 100), layers=[[0, name, of]])))
    assert row["kind"] == kind


def test_layers_whose_type_nobody_told_hide_shares() -> None:
    untold = layer_run((0, "conv1", 100), layers=[[0, "conv1", ""]])
    verdict = "Of predict in l: convolution unknown, attention unknown."
    assert table_of(ANALYSIS, untold).verdict == verdict
    device_attributes = [[0, "a", "Conv"], [1, "b", ""]]
    both = layer_run((0, "a", 1000), (1, "b", 1000), layers=device_attributes)
    assert "convolution at least 10.0%, attention unknown." in table_of(ANALYSIS, both).verdict
    little = layer_run((0, "a", 1000), (1, "b", 5), layers=device_attributes)
    assert "convolution 10.0%, attention 0.0%." in table_of(ANALYSIS, little).verdict


def test_shares_are_of_predict() -> None:
    device_attributes = [[0, "a", "Conv"], [1, "b", "Attention"]]
    table = table_of(ANALYSIS, layer_run((0, "a", 2500), (1, "b", 1000), layers=device_attributes))
    rows = named(rows_of(table), "kind")
    assert (rows["convolution"]["share"], rows["attention"]["share"]) == (0.25, 0.1)
    assert table.verdict == "Of predict in l: convolution 25.0%, attention 10.0%."


def test_attention_in_parts_is_unknown_and_a_classifiers_softmax_is_none() -> None:
    told = {}
    for types in (("MatMul", "Softmax", "MatMul"), ("Conv", "MatMul", "Softmax")):
        layers = [(n, f"l{n}", 100) for n in range(3)]
        device_attributes = [[n, f"l{n}", of] for n, of in enumerate(types)]
        table = table_of(ANALYSIS, layer_run(*layers, layers=device_attributes))
        row = named(rows_of(table), "kind").get("attention")
        told[types[0]] = row and row["share"], len(table.caveats), table.verdict.split()[-1]
    assert told == {"MatMul": (None, 1, "unknown."), "Conv": (None, 0, "0.0%.")}


@pytest.mark.parametrize(
    ("middle", "last", "share"),
    [
        (["m", "dot fusion", "", "", ["a/sub", "a/exp"]], "a/dot_general", None),
        (["a/exp", "exponential"], "a/dot_general", None),
        (["a/exp2", "exponential"], "a/dot_general", "no row"),
        # A classifier's softmax lies behind its products.
        (["a/mul", "multiply"], "head/exp", "no row"),
    ],
)
def test_attention_that_xla_took_apart_is_unknown(
    middle: list[Any], last: str, share: str | None
) -> None:
    of = "dot" if "dot" in last else "exponential"
    device_attributes = [[0, "a/reduce_max", "reduce"], [1, "q/dot_general", "dot"], [2, *middle]]
    layers = [(n, str(each[1]), 100) for n, each in enumerate(device_attributes)]
    run = layer_run(*layers, (3, last, 100), layers=[*device_attributes, [3, last, of]])
    row = named(rows_of(table_of(ANALYSIS, run)), "kind").get("attention", {"share": "no row"})
    assert row["share"] == share


def test_exp_alone_is_no_softmax() -> None:
    device_attributes = [[0, "a/exp", "exponential"], [1, "q/dot_general", "dot"]]
    run = layer_run((0, "a/exp", 100), (1, "q/dot_general", 100), layers=device_attributes)
    assert "attention 0.0%." in table_of(ANALYSIS, run).verdict


def test_a_classifiers_softmax_behind_attention_in_parts_does_not_hide_it() -> None:
    types = ("MatMul", "Softmax", "MatMul", "Softmax")
    layers = [(n, f"l{n}", 100) for n in range(len(types))]
    run = layer_run(*layers, layers=[[n, f"l{n}", of] for n, of in enumerate(types)])
    assert named(rows_of(table_of(ANALYSIS, run)), "kind")["attention"]["share"] is None


def test_shares_of_kernels_are_told_of_their_time_and_of_predict() -> None:
    types = [[0, "a", "Conv"], [1, "b", "Attention"]]
    layers = layer_run((0, "a", 100), (1, "b", 100), layers=types)
    # 3 µs and 1 µs of the 4 µs of kernels, and of the 10 µs of predict.
    kernels = kernel_run((0, "gemm", 3000), (1, "flash", 1000))
    assert table_of(ANALYSIS, model_run(), layers, kernels).verdict == (
        "Of the kernel time in s: convolution 75.0%, attention 25.0%; "
        "of predict: convolution 30.0%, attention 10.0%."
    )
