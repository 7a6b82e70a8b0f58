"""ONNX files read without the onnx package."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.predictors.onnx_graph import Node, nodes_of, originals_of
from tests.services.agent.builders import MANIFESTS


def chain(*names: str) -> list[Node]:
    """Return nodes that each take what the one before makes."""
    return [
        Node(name, "Op", (names[index - 1] if index else "in", f"{name}.w"), (name,))
        for index, name in enumerate(names)
    ]


def test_a_real_model_is_read() -> None:
    nodes = nodes_of((MANIFESTS / "models" / "tiny_cnn" / "model.onnx").read_bytes())
    assert [node.name for node in nodes][:3] == ["conv1", "relu1", "conv2"]
    assert nodes[0].op_type == "Conv"
    assert nodes[1].inputs[0] == nodes[0].outputs[0]


def test_a_region_reaches_back_to_the_node_before() -> None:
    nodes = chain("conv1", "bn1", "relu1", "conv2", "relu2")
    kept = {"fused1": "relu1", "fused2": "relu2"}
    assert originals_of(nodes, kept) == {
        "fused1": ("conv1", "bn1", "relu1"),
        "fused2": ("conv2", "relu2"),
    }


def test_branches_belong_to_where_they_end() -> None:
    left, right = Node("l", "Op", ("in",), ("l",)), Node("r", "Op", ("in",), ("r",))
    add = Node("add", "Add", ("l", "r"), ("add",))
    assert originals_of([left, right, add], {"sum": "add", "left": "l"}) == {
        "sum": ("r", "add"),
        "left": ("l",),
    }


def test_a_node_without_origin_has_none() -> None:
    assert originals_of(chain("a"), {"reorder": "unheard"}) == {}


@given(st.binary(max_size=200))
def test_rubbish_is_no_model_and_no_crash(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert all(isinstance(node, Node) for node in nodes_of(body))


def test_a_cut_model_is_noticed_or_short() -> None:
    whole = (MANIFESTS / "models" / "tiny_cnn" / "model.onnx").read_bytes()
    with pytest.raises(ValueError, match="not an ONNX model"):
        nodes_of(b"\x3a\xff")
    assert len(nodes_of(whole)) == 9
