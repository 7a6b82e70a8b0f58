"""No parameter or local of a function has the name of an import or a function of its module."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("schemas", "mlscope", "services", "cli", "tools", "benchmarks")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def names_of_module(tree: ast.Module) -> set[str]:
    """Return the names that a module imports, and those of its functions and classes."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
    return names


def names_of_function(function: Function) -> dict[str, int]:
    """Return the parameters and locals of a function, with the line of each."""
    lines = {}
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            lines[node.arg] = node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            lines[node.id] = node.lineno
    return lines


def hidden_names(source: str) -> list[str]:
    """Return each parameter or local that hides a name of its module, as `line: name`."""
    tree = ast.parse(source)
    outer = names_of_module(tree)
    functions = (node for node in ast.walk(tree) if isinstance(node, Function))
    return [
        f"{line}: {name}"
        for function in functions
        for name, line in names_of_function(function).items()
        if name in outer
    ]


def test_a_parameter_and_a_local_are_seen() -> None:
    source = "from a import b\n\ndef c(b):\n    return b\n\ndef d():\n    c = 1\n    return c\n"
    assert hidden_names(source) == ["3: b", "7: c"]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_of_a_module_is_hidden(package: str) -> None:
    hidden = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in hidden_names(path.read_text("utf-8"))
    ]
    assert hidden == []
