"""Which original nodes an optimised one does the work of."""

from collections.abc import Sequence

from services.agent.predictors.onnxruntime.graph import Node
from services.agent.predictors.onnxruntime.origins import BLOCKED, named_as_profiled, origins_of


def chain(*names: str) -> list[Node]:
    """Return nodes that each take what the one before makes; `a` makes the tensor `A`."""
    return [
        Node(name, "Op", (names[at - 1].upper() if at else "in", f"{name}.w"), (name.upper(),))
        for at, name in enumerate(names)
    ]


def blocked(name: str, inputs: Sequence[str], output: str, activation: str = "") -> Node:
    """Return a convolution in ONNX Runtime's own layout."""
    texts = {"activation": activation} if activation else {}
    return Node(name, "Conv", tuple(inputs), (output,), BLOCKED, texts=texts)


def told(originals: Sequence[Node], executed: Sequence[Node]) -> dict[str, list[str]]:
    found = origins_of(originals, executed)
    return {name: [node.label for node in nodes] for name, nodes in found.items()}


def test_a_region_reaches_back_to_the_node_before() -> None:
    executed = [Node("f1", "Fused", ("in",), ("RELU1",)), Node("f2", "F", ("RELU1",), ("RELU2",))]
    nodes = chain("conv1", "bn1", "relu1", "conv2", "relu2")
    assert told(nodes, executed) == {"f1": ["conv1", "bn1", "relu1"], "f2": ["conv2", "relu2"]}


def test_a_node_s_output_tells_more_than_its_name() -> None:
    executed = [Node("conv", "FusedConv", ("in",), ("RELU",)), Node("x", "Op", ("RELU",), ("X",))]
    assert told(chain("conv", "relu", "x"), executed) == {"conv": ["conv", "relu"], "x": ["x"]}


def test_branches_belong_to_where_they_end() -> None:
    left, right = Node("l", "Op", ("in",), ("l",)), Node("r", "Op", ("in",), ("r",))
    add = Node("add", "Add", ("l", "r"), ("add",))
    executed = [left, Node("sum", "Add", ("l", "in"), ("add",))]
    assert told([left, right, add], executed) == {"l": ["l"], "sum": ["r", "add"]}


def test_a_node_without_origin_has_none() -> None:
    assert told(chain("a"), [Node("reorder", "ReorderInput", ("in",), ("t",))]) == {}


def test_a_reorder_stands_for_what_it_was_given() -> None:
    executed = [blocked("unheard", ["in"], "t"), Node("R", "ReorderOutput", ("t",), ("RELU",))]
    assert told(chain("conv", "relu"), executed) == {"unheard": ["conv", "relu"]}


def test_a_chain_of_own_moves_stands_for_what_it_was_given() -> None:
    executed = [
        Node("unheard", "Op", ("in",), ("t",)),
        Node("Reshape_token_3", "Reshape", ("t", "sizes"), ("u",)),
        Node("R", "ReorderOutput", ("u",), ("RELU",)),
    ]
    assert told(chain("conv", "relu"), executed) == {"unheard": ["conv", "relu"]}


def test_a_move_to_nowhere_known_hides_no_other() -> None:
    executed = [
        blocked("unheard", ["in"], "t"),
        Node("R", "ReorderOutput", ("t",), ("RELU",)),
        Node("Reshape_token_3", "Reshape", ("t", "sizes"), ("u",)),
    ]
    assert told(chain("conv", "relu"), executed) == {"unheard": ["conv", "relu"]}


def test_a_transpose_of_the_author_s_is_a_layer() -> None:
    nodes = [*chain("conv"), Node("turn", "Transpose", ("CONV",), ("TURNED",))]
    assert told(nodes, nodes) == {"conv": ["conv"], "turn": ["turn"]}


def test_a_blocked_node_is_named_after_the_tensor_that_it_makes() -> None:
    executed = [blocked("CONV_nchwc", ["in"], "t"), blocked("NORM_bn_nchwc", ["t"], "u")]
    nodes = chain("conv", "relu", "norm")
    assert told(nodes, executed) == {"CONV_nchwc": ["conv"], "NORM_bn_nchwc": ["relu", "norm"]}


def test_an_activation_behind_a_blocked_node_is_its_own() -> None:
    nodes = [*chain("conv"), Node("act", "Relu", ("CONV",), ("ACT",))]
    executed = [blocked("CONV_nchwc", ["in", "w"], "t", activation="Relu")]
    assert told(nodes, executed) == {"CONV_nchwc": ["conv", "act"]}
    assert told(nodes, [blocked("ACT_nchwc", ["in", "w"], "t", activation="Relu")]) == {
        "ACT_nchwc": ["conv", "act"]
    }


def test_what_others_take_too_was_not_merged() -> None:
    nodes = [
        *chain("conv"),
        Node("act", "Relu", ("CONV",), ("ACT",)),
        Node("more", "Neg", ("CONV",), ("MORE",)),
    ]
    executed = [blocked("CONV_nchwc", ["in", "w"], "t", activation="Relu")]
    assert told(nodes, executed) == {"CONV_nchwc": ["conv"]}


def test_a_fusion_without_a_known_output_is_found_by_its_name() -> None:
    executed = [Node("relu/QuickGeluFusion/", "QuickGelu", ("in",), ("t",))]
    assert told(chain("conv", "relu"), executed) == {"relu/QuickGeluFusion/": ["conv", "relu"]}


def test_nodes_without_a_name_keep_apart() -> None:
    originals = [
        Node("", "Constant", (), ("c",)),
        Node("", "Add", ("in", "c"), ("a",)),
        Node("", "Exp", ("a",), ("b",)),
    ]
    executed = named_as_profiled(
        originals, [Node("", "Add", ("in", "c"), ("a",)), Node("", "Other", ("a",), ("b",))]
    )
    assert [node.name for node in executed] == ["Add_0", "b"]
    assert told(originals, executed) == {"Add_0": ["a"], "b": ["b"]}
