"""Kinds of work by the types that frameworks give."""

import pytest

from services.analyzer.tables.work_kinds import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import layer_run, named


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("convolution", ("Conv2D", "DepthwiseConv2dNative", "FusedConv", "conv_general_dilated")),
        ("attention", ("MultiHeadAttention", "scaled_dot_product_attention", "SDPA")),
        ("matrix product", ("Gemm", "MatMul", "Linear", "FullyConnected", "fc")),
        ("normalisation", ("BatchNorm2d", "LayerNormalization")),
        ("pooling", ("MaxPool", "AdaptiveAvgPool2d")),
        ("other", ("Relu", "Where", "Convert", "convert_element_type", "")),
    ],
)
def test_types_of_every_framework_have_their_kind(kind: str, types: tuple[str, ...]) -> None:
    layers = [(n, f"l{n}", 100) for n in range(len(types))]
    natures = [[n, f"l{n}", of] for n, of in enumerate(types)]
    (row,) = rows_of(table_of(ANALYSIS, layer_run(*layers, layers=natures)))
    assert (row["kind"], row["layers"], row["time"]) == (kind, len(types), 100.0 * len(types))


def test_shares_are_of_predict() -> None:
    natures = [[0, "a", "Conv"], [1, "b", "Attention"]]
    table = table_of(ANALYSIS, layer_run((0, "a", 2500), (1, "b", 1000), layers=natures))
    rows = named(rows_of(table), "kind")
    assert (rows["convolution"]["share"], rows["attention"]["share"]) == (0.25, 0.1)
    assert table.verdict == "Of predict in l: convolution 25.0%, attention 10.0%."


def test_attention_in_parts_is_unknown_and_a_classifiers_softmax_is_none() -> None:
    told = {}
    for types in (("MatMul", "Softmax", "MatMul"), ("Conv", "MatMul", "Softmax")):
        layers = [(n, f"l{n}", 100) for n in range(3)]
        natures = [[n, f"l{n}", of] for n, of in enumerate(types)]
        table = table_of(ANALYSIS, layer_run(*layers, layers=natures))
        row = named(rows_of(table), "kind").get("attention")
        told[types[0]] = row and row["share"], len(table.caveats), table.verdict.split()[-1]
    assert told == {"MatMul": (None, 1, "unknown."), "Conv": (None, 0, "0.0%.")}
