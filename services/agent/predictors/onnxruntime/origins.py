"""Map each node of an optimised graph to the nodes of the ONNX file that it replaces. Pure.

ONNX Runtime's optimiser merges nodes, renames them and moves them into a layout of its own. An
optimised node that makes a tensor of the original graph ends with the node that made it there. In
the blocked layout (NCHWc) tensors have new names, but a node is named after the tensor that it made
before (nchwc_transformer.cc); what was merged behind it (a sum, an activation) follows from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from services.agent.predictors.onnxruntime.graph import Node

BLOCKED = "com.microsoft.nchwc"
"""The domain of ONNX Runtime's operators in the layout NCHWc."""

_MOVERS = frozenset({"ReorderInput", "ReorderOutput", "Transpose", "Reshape", "Cast"})
_SUFFIXES = ("_bn_nchwc", "_nchwc")
_SUMS = ("Add", "Sum")
_SUMMED = 4
"""Inputs of a blocked convolution that also adds: data, weights, bias and the summand."""

Origins = Mapping[str, tuple[Node, ...]]
"""The original nodes of each executed one, by its name."""


def origins_of(originals: Sequence[Node], executed: Sequence[Node]) -> Origins:
    """Return the original nodes that each executed node replaces, in file order.

    `originals`: the nodes of the file; `executed`: those of the optimised graph. The walk goes back
    from the last replaced node through the original graph, up to the last nodes of the others. A
    node that only moves data between layouts replaces none.
    """
    graph = _OriginalGraph(originals)
    # The original tensor that each executed tensor equals, in another layout or not.
    equal_to = {out: out for node in executed for out in node.outputs if out in graph.maker}
    for node in reversed(executed):
        for tensor in _relaid_inputs(graph, node):
            if node.outputs[0] in equal_to:
                equal_to.setdefault(tensor, equal_to[node.outputs[0]])
    last_nodes = dict[str, Node]()
    for node in executed:
        if any(tensor in equal_to for tensor in _relaid_inputs(graph, node)):
            continue
        original = next((equal_to[out] for out in node.outputs if out in equal_to), None)
        last = graph.maker[original] if original is not None else _last_by_name(graph, node)
        if last is not None:
            last_nodes[node.name] = last
    stops = {graph.position(last) for last in last_nodes.values()}
    return MappingProxyType(
        {name: tuple(graph.region(last, stops)) for name, last in last_nodes.items() if name}
    )


def named_as_profiled(originals: Sequence[Node], executed: Sequence[Node]) -> tuple[Node, ...]:
    """Return the executed nodes; those without a name get the one that the profile shows.

    It is `Operator_number`, with the number that a node of the file (`originals`) has among those
    that are not constants. An unnamed node that the optimiser made is called after its output.
    """
    numbered = (node for node in originals if node.op_type != "Constant")
    numbers = {out: (n, node.op_type) for n, node in enumerate(numbered) for out in node.outputs}
    named = []
    for node in executed:
        number, kind = next((numbers[out] for out in node.outputs if out in numbers), (0, ""))
        profiled = f"{kind}_{number}" if kind == node.op_type else node.label
        named.append(node if node.name else replace(node, name=profiled))
    return tuple(named)


class _OriginalGraph:
    """The graph of the file: which nodes make and which read a tensor."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.maker = {out: node for node in nodes for out in node.outputs if out}
        self.by_name = {node.name: node for node in nodes if node.name}
        self._positions = {id(node): position for position, node in enumerate(nodes)}
        self._readers: dict[str, list[Node]] = {}
        for node in nodes:
            for tensor in dict.fromkeys(node.inputs):
                self._readers.setdefault(tensor, []).append(node)

    def position(self, node: Node) -> int:
        """Return a node's position in the file."""
        return self._positions[id(node)]

    def region(self, last: Node, stops: set[int]) -> list[Node]:
        """Return the nodes from those at the positions `stops` up to `last`; no constants."""
        inside, waiting = {self.position(last)}, [last]
        while waiting:
            for tensor in waiting.pop().inputs:
                node = self.maker.get(tensor)
                position = -1 if node is None else self.position(node)
                if node is None or position in inside or position in stops:
                    continue
                inside.add(position)
                waiting.append(node)
        nodes = (self.nodes[position] for position in sorted(inside))
        return [node for node in nodes if node.op_type != "Constant"]

    def after(self, node: Node, kinds: Sequence[str]) -> Node:
        """Return the only reader of a node's output if its operator is in `kinds`, else `node`."""
        readers = self._readers.get(node.outputs[0], []) if len(node.outputs) == 1 else []
        return readers[0] if len(readers) == 1 and readers[0].op_type in kinds else node


def _relaid_inputs(graph: _OriginalGraph, node: Node) -> Sequence[str]:
    """Return the input of a node that ONNX Runtime added only to change its layout."""
    if node.op_type not in _MOVERS or len(node.outputs) != 1:
        return ()
    maker = graph.maker.get(node.outputs[0])
    is_own = maker is None or maker.op_type != node.op_type
    return node.inputs[:1] if is_own and node.inputs[0] not in graph.maker else ()


def _last_by_name(graph: _OriginalGraph, node: Node) -> Node | None:
    """Return the last original node of one whose outputs the original graph lacks, by its name."""
    name = next((node.name.removesuffix(s) for s in _SUFFIXES if node.name.endswith(s)), "")
    last = graph.maker.get(name)
    if last is None:
        stem, slash, fusion = node.name.rpartition("/")[0].rpartition("/")
        plain = stem if slash and fusion.endswith("Fusion") else node.name
        last = graph.by_name.get(plain) or graph.by_name.get(name)
    if last is not None and node.domain == BLOCKED:
        if len(node.inputs) >= _SUMMED:
            last = graph.after(last, _SUMS)
        activation = node.texts.get("activation", "")
        if activation != last.op_type:
            last = graph.after(last, (activation,))
    return last
