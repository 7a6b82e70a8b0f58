"""The agent's modules import each other without a cycle, those for types alone among them."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import services.agent

ROOT = Path(services.agent.__file__).parent
PACKAGE = "services.agent"


def modules() -> dict[str, Path]:
    """Return the agent's modules by name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join((PACKAGE, *parts)).removesuffix(".__init__")
        found[name] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield what a module imports when it is read, or would for its types; not in functions."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    graph = {
        name: {other for other in imported(path) if other in known and other != name}
        for name, path in known.items()
    }
    assert len(graph["services.agent.worker.group"]) > 5
    # Raises CycleError, which names the modules.
    assert list(TopologicalSorter(graph).static_order())
