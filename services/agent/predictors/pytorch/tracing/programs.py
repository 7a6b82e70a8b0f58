"""Find the module that each operator of a scripted or exported PyTorch program comes from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

_SELF = "L['self']"


def operator_names(program: Any) -> Mapping[str, Sequence[str]]:
    """Return the qualified names of a program's operators, in order, by operator name.

    A module of Python's, which is neither scripted nor exported, has none.
    """
    if isinstance(program, torch.jit.ScriptModule):
        method = program._c._get_method("forward")  # noqa: SLF001
        named_operators = _scripted(program, method.graph, "")
    elif isinstance(program, torch.fx.GraphModule):
        named_operators = _exported(program)
    else:
        return {}
    names: dict[str, list[str]] = {}
    for operator, name in named_operators:
        names.setdefault(operator, []).append(name)
    return names


def _exported(program: torch.fx.GraphModule) -> Iterator[tuple[str, str]]:
    for node in program.graph.nodes:
        packet = getattr(node.target, "overloadpacket", None)
        if node.op == "call_function" and packet is not None:
            stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
            module = stack[-1].removeprefix(_SELF).lstrip(".") if stack else ""
            name = f"{module}/{node.name}" if module else str(node.name)
            yield "aten::" + str(packet).rpartition(".")[2], name


def _scripted(module: Any, graph: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the operators of a script's graph, and of the methods of its modules that it calls."""
    own = next(iter(graph.inputs())).debugName()
    yield from _in_block(graph, {own: (path, module)})


def _in_block(block: Any, modules: dict[str, tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield a block's operators; `modules`: paths and modules by the names of values."""
    path = next(iter(modules.values()))[0]
    for node in block.nodes():
        kind = node.kind()
        if kind == "prim::GetAttr" and node.inputsAt(0).debugName() in modules:
            above, owner = modules[node.inputsAt(0).debugName()]
            part = getattr(owner, node.s("name"), None)
            if isinstance(part, torch.jit.ScriptModule):
                modules[node.output().debugName()] = (f"{above}.{node.s('name')}".lstrip("."), part)
        elif kind == "prim::CallMethod" and node.inputsAt(0).debugName() in modules:
            below, callee = modules[node.inputsAt(0).debugName()]
            # Reading the method as an attribute would leave it on the script module.
            method = callee._c._get_method(node.s("name"))  # noqa: SLF001
            yield from _scripted(callee, method.graph, below)
        elif kind.startswith("aten::"):
            yield kind, f"{path}/{kind.removeprefix('aten::')}".lstrip("/")
        for inner in node.blocks():
            yield from _in_block(inner, modules)
