"""The tree of a model's layers: scopes of names, times that add up, nothing dropped."""

from typing import Any

import pytest

from schemas.analysis import Table
from services.gateway.pages.catalog.layer_tree import LayerTree, Scope, layer_tree
from tests.services.gateway.pages.results.test_picture import a_table


def a_layer(name: str, node: int, time: float, **more: Any) -> dict[str, Any]:
    """Return the row of a layer in run r0."""
    row = {"run": "r0", "name": name, "node": node, "type": "Conv", "queries": 5, "time": time}
    return row | more


def tree_of(*rows: dict[str, Any], total: int = 0) -> LayerTree:
    """Return the tree of layers."""
    table: Table = a_table("layers", *rows)["layers"]
    tree = layer_tree("e1", table, total or len(rows))
    assert tree is not None
    return tree


def described(scopes: Any, depth: int = 0) -> list[tuple[int, str, float]]:
    """Return depth, name and time of every scope and layer."""
    lines: list[tuple[int, str, float]] = []
    for scope in scopes:
        lines += [(depth, scope.name, scope.time_ns), *described(scope.inside, depth + 1)]
    return lines


def test_layers_stand_in_the_scopes_of_their_names() -> None:
    tree = tree_of(
        a_layer("conv1", 0, 10),
        a_layer("layer1.0.conv1", 1, 20),
        a_layer("layer1.0.bn1", 2, 5),
        a_layer("layer1/1/conv1", 3, 15),
    )
    assert described(tree.scopes) == [
        (0, "conv1", 10),
        (0, "layer1", 40),
        (1, "0", 25),
        (2, "conv1", 20),
        (2, "bn1", 5),
        (1, "1.conv1", 15),
    ]
    (conv, layer1) = tree.scopes
    assert (conv.share, layer1.share, layer1.layers) == (0.2, 0.8, 3)
    assert (conv.address, layer1.address) == ("/evaluations/e1/analyses/A2?layer=0", "")
    assert (layer1.is_open, conv.is_open) == (True, True)


def test_layers_of_one_name_stay_apart() -> None:
    tree = tree_of(a_layer("a.relu", 1, 3), a_layer("a.relu", 2, 4), a_layer("a", 3, 5))
    assert described(tree.scopes) == [(0, "a", 7), (1, "relu", 3), (1, "relu", 4), (0, "a", 5)]


def test_odd_names_are_layers_too() -> None:
    names = ["", "/", "aten::add_", ".".join("x" * 500), "模型/层"]
    tree = tree_of(*(a_layer(name, number, 1) for number, name in enumerate(names)))
    assert sum(scope.layers for scope in tree.scopes) == tree.layers == len(names)
    deep = next(scope for scope in tree.scopes if scope.name.startswith("x"))
    assert sum(scope.time_ns for scope in tree.scopes) == 5
    assert deep.address.endswith("layer=3")


def test_layers_that_never_ran_and_other_runs_are_left_out() -> None:
    idle = a_layer("never", 9, 0, queries=0)
    other = a_layer("conv", 0, 7, run="r1")
    tree = tree_of(idle, a_layer("conv", -1, 5), other, total=10)
    assert [scope.time_ns for scope in tree.scopes] == [5]
    assert (tree.run, tree.layers, tree.left_out) == ("r0", 1, 7)
    assert tree.scopes[0].address == "/evaluations/e1/analyses/A2"


@pytest.mark.parametrize(
    "table", [None, a_table("layers", a_layer("x", 0, 0, queries=0))["layers"]]
)
def test_without_layers_there_is_no_tree(table: Table | None) -> None:
    assert layer_tree("e1", table, 0) is None


def test_a_scope_without_time_has_no_share() -> None:
    tree = tree_of(a_layer("x", 0, 0))
    assert (tree.scopes[0].share, Scope("y").is_open) == (0.0, False)
