"""Which module each operator of a scripted or exported PyTorch program comes from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

_SELF = "L['self']"


def operator_places(program: Any) -> Mapping[str, Sequence[str]]:
    """Return the qualified names of a program's operators, in order, by operator name.

    Empty for what is no such program: a module of Python's.
    """
    if isinstance(program, torch.jit.ScriptModule):
        method = program._c._get_method("forward")  # noqa: SLF001
        found = _scripted(program, method.graph, "")
    elif isinstance(program, torch.fx.GraphModule):
        found = _exported(program)
    else:
        return {}
    places: dict[str, list[str]] = {}
    for operator, place in found:
        places.setdefault(operator, []).append(place)
    return places


def _exported(program: torch.fx.GraphModule) -> Iterator[tuple[str, str]]:
    for node in program.graph.nodes:
        packet = getattr(node.target, "overloadpacket", None)
        if node.op == "call_function" and packet is not None:
            stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
            module = stack[-1].removeprefix(_SELF).lstrip(".") if stack else ""
            name = f"{module}/{node.name}" if module else str(node.name)
            yield "aten::" + str(packet).rpartition(".")[2], name


def _scripted(module: Any, graph: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield operators of a script's graph, following the calls of its modules' methods."""
    own = next(iter(graph.inputs())).debugName()
    yield from _in_block(graph, {own: (path, module)})


def _in_block(block: Any, known: dict[str, tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield a block's operators; `known` are paths and modules by the names of values."""
    path = next(iter(known.values()))[0]
    for node in block.nodes():
        kind = node.kind()
        if kind == "prim::GetAttr" and node.inputsAt(0).debugName() in known:
            above, owner = known[node.inputsAt(0).debugName()]
            part = getattr(owner, node.s("name"), None)
            if isinstance(part, torch.jit.ScriptModule):
                known[node.output().debugName()] = (f"{above}.{node.s('name')}".lstrip("."), part)
        elif kind == "prim::CallMethod" and node.inputsAt(0).debugName() in known:
            below, called = known[node.inputsAt(0).debugName()]
            # A script module's own attribute would be kept on it from then on.
            method = called._c._get_method(node.s("name"))  # noqa: SLF001
            yield from _scripted(called, method.graph, below)
        elif kind.startswith("aten::"):
            yield kind, f"{path}/{kind.removeprefix('aten::')}".lstrip("/")
        for inner in node.blocks():
            yield from _in_block(inner, known)
