"""Which nodes of an ONNX file an optimised one's do the work of. Pure.

ONNX Runtime's optimiser merges nodes, renames them and moves them into a layout of its own. A node
that makes a tensor of the original graph ends where that was made. In the blocked layout (NCHWc)
tensors have new names: there a node is named after the tensor that it made before
(nchwc_transformer.cc), and what was merged behind it (a sum, an activation) follows from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from services.agent.predictors.onnx_graph import Node

BLOCKED = "com.microsoft.nchwc"
"""The domain of ONNX Runtime's operators in the layout NCHWc."""

_MOVERS = frozenset({"ReorderInput", "ReorderOutput", "Transpose", "Reshape", "Cast"})
_SUFFIXES = ("_bn_nchwc", "_nchwc")
_SUMS = ("Add", "Sum")
_SUMMED = 4
"""Inputs of a blocked convolution that also adds: data, weights, bias and what is added."""

Origins = Mapping[str, tuple[Node, ...]]
"""The original nodes of each executed one, by its name."""


def origins_of(originals: Sequence[Node], executed: Sequence[Node]) -> Origins:
    """Return the original nodes that each executed one does the work of, in file order.

    Its region is found by walking back from the node that ends it through the original graph, up
    to the ends of other executed nodes. One that only moves data between layouts has none.
    """
    graph = _Original(originals)
    ends = _ends(graph, executed)
    stops = {graph.place(last) for last in ends.values()}
    return MappingProxyType(
        {name: tuple(graph.region(last, stops)) for name, last in ends.items() if name}
    )


def named_as_profiled(originals: Sequence[Node], executed: Sequence[Node]) -> tuple[Node, ...]:
    """Return the executed nodes, those without a name as the profile calls them.

    That is `Operator_number` with the number that a node of the file has among those that are no
    constants; what the optimiser made without a name is called after what it makes.
    """
    numbered = (node for node in originals if node.op_type != "Constant")
    places = {out: (n, node.op_type) for n, node in enumerate(numbered) for out in node.outputs}

    def named(node: Node) -> Node:
        number, kind = next((places[out] for out in node.outputs if out in places), (0, ""))
        is_same = kind == node.op_type
        return replace(node, name=f"{kind}_{number}" if is_same else node.label)

    return tuple(node if node.name else named(node) for node in executed)


class _Original:
    """The original graph: who makes a tensor and who takes it."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.maker = {out: node for node in nodes for out in node.outputs if out}
        self.named = {node.name: node for node in nodes if node.name}
        self._places = {id(node): place for place, node in enumerate(nodes)}
        self._takers: dict[str, list[Node]] = {}
        for node in nodes:
            for tensor in dict.fromkeys(node.inputs):
                self._takers.setdefault(tensor, []).append(node)

    def place(self, node: Node) -> int:
        """Return a node's place in the file."""
        return self._places[id(node)]

    def region(self, end: Node, stops: set[int]) -> list[Node]:
        """Return what lies between a node and the ends of others, it included; no constants."""
        found, waiting = {self.place(end)}, [end]
        while waiting:
            for tensor in waiting.pop().inputs:
                node = self.maker.get(tensor)
                if node is None or (place := self.place(node)) in found or place in stops:
                    continue
                found.add(place)
                waiting.append(node)
        nodes = (self.nodes[place] for place in sorted(found))
        return [node for node in nodes if node.op_type != "Constant"]

    def after(self, node: Node, kinds: Sequence[str]) -> Node:
        """Return the only node behind another when it is of one of some kinds, else that other."""
        takers = self._takers.get(node.outputs[0], []) if len(node.outputs) == 1 else []
        return takers[0] if len(takers) == 1 and takers[0].op_type in kinds else node


def _ends(graph: _Original, executed: Sequence[Node]) -> dict[str, Node]:
    """Return the original node that ends each executed one, by its name."""
    stands = _stands_for(graph, executed)
    ends = dict[str, Node]()
    for node in executed:
        if any(tensor in stands for tensor in _moved(graph, node)):
            continue
        made = next((stands[out] for out in node.outputs if out in stands), None)
        last = graph.maker[made] if made is not None else _named(graph, node)
        if last is not None:
            ends[node.name] = last
    return ends


def _stands_for(graph: _Original, executed: Sequence[Node]) -> dict[str, str]:
    """Return the original tensor that each executed one is, in another layout or not."""
    stands = {out: out for node in executed for out in node.outputs if out in graph.maker}
    for node in reversed(executed):
        for tensor in _moved(graph, node):
            if node.outputs[0] in stands:
                stands.setdefault(tensor, stands[node.outputs[0]])
    return stands


def _moved(graph: _Original, node: Node) -> Sequence[str]:
    """Return the tensor that ONNX Runtime's own node only moves to another layout."""
    if node.op_type not in _MOVERS or len(node.outputs) != 1:
        return ()
    maker = graph.maker.get(node.outputs[0])
    is_own = maker is None or maker.op_type != node.op_type
    return node.inputs[:1] if is_own and node.inputs[0] not in graph.maker else ()


def _named(graph: _Original, node: Node) -> Node | None:
    """Return what ends a node whose outputs the original graph does not know: by its name."""
    name = next((node.name.removesuffix(s) for s in _SUFFIXES if node.name.endswith(s)), "")
    last = graph.maker.get(name)
    if last is None:
        stem, fusion, rest = node.name.rpartition("/")[0].rpartition("/")
        plain = stem if fusion and rest.endswith("Fusion") else node.name
        last = graph.named.get(plain) or graph.named.get(name)
    if last is not None and node.domain == BLOCKED:
        if len(node.inputs) >= _SUMMED:
            last = graph.after(last, _SUMS)
        activation = node.words.get("activation", "")
        if activation != last.op_type:
            last = graph.after(last, (activation,))
    return last
