"""ONNX files read without the onnx package."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.predictors.onnxruntime.graph import Node, Weights, graph_of
from tests.services.agent.builders import MANIFESTS
from tests.services.agent.predictors.onnx_nets import field, model, node, tensor


def test_a_real_model_is_read() -> None:
    graph = graph_of((MANIFESTS / "models" / "tiny_cnn" / "model.onnx").read_bytes())
    nodes = graph.nodes
    assert [node.name for node in nodes][:3] == ["conv1", "relu1", "conv2"]
    assert nodes[0].op_type == "Conv"
    assert nodes[1].inputs[0] == nodes[0].outputs[0]


def test_weights_are_known_by_their_shape_and_type() -> None:
    body = model(
        [node("Constant", "", "c", value=tensor("", (2, 3)))],
        [],
        [],
        [tensor("w", (8, 3, 5, 5)), tensor("sizes", (3,), (1, 2, 3))],
    )
    assert graph_of(body).weights == {
        "w": Weights((8, 3, 5, 5), 32),
        "sizes": Weights((3,), 64),
        "c": Weights((2, 3), 32),
    }


def test_weights_of_half_bytes_are_rounded_up() -> None:
    assert Weights((3, 3), 4).size_bytes == 5
    assert Weights((), 32).size_bytes == 4


def test_attributes_are_numbers_and_texts() -> None:
    body = model([node("Conv", "x w", "y", "c", pads=(1, 2), group=300, auto_pad="VALID")], [], [])
    (only,) = graph_of(body).nodes
    assert only.integers == {"pads": (1, 2), "group": (300,)}
    assert only.texts == {"auto_pad": "VALID"}
    assert (only.name, only.inputs, only.outputs) == ("c", ("x", "w"), ("y",))


def test_negative_attributes_keep_their_sign() -> None:
    body = model([node("Slice", "x", "y", "s", axes=(-1, 2), axis=-2)], [], [])
    (only,) = graph_of(body).nodes
    assert only.integers == {"axes": (-1, 2), "axis": (-2,)}


def test_nodes_in_a_branch_are_apart_and_their_weights_known() -> None:
    branch = field(1, node("MatMul", "x w", "m", "inside")) + field(5, tensor("w", (3, 4)))
    attribute = field(5, field(1, "then_branch") + field(6, branch) + field(20, 5))
    graph = graph_of(model([node("If", "c", "y", "choice") + attribute], [], []))
    assert [each.name for each in graph.nodes] == ["choice"]
    assert [each.name for each in graph.inner] == ["inside"]
    assert graph.weights == {"w": Weights((3, 4), 32)}


@given(st.binary(max_size=200))
def test_rubbish_is_no_model_and_no_crash(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert all(isinstance(each, Node) for each in graph_of(body).nodes)


def test_a_cut_model_is_noticed_or_short() -> None:
    whole = (MANIFESTS / "models" / "tiny_cnn" / "model.onnx").read_bytes()
    with pytest.raises(ValueError, match="not an ONNX model"):
        graph_of(b"\x3a\xff")
    assert len(graph_of(whole).nodes) == 9
