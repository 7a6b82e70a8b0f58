"""Public functions with three or more parameters name each of them in their docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "mlscope", "services", "cli", "tools")
LEAST_PARAMETERS = 3

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function, str]]:
    """Yield the name, the node and the class's docstring of each public function."""
    for node in body:
        if isinstance(node, Function) and (not node.name.startswith("_")):
            yield f"{prefix}{node.name}", node, ""
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, f"{prefix}{node.name}.")
            for method in node.body:
                if isinstance(method, Function) and method.name == "__init__":
                    yield f"{prefix}{node.name}.__init__", method, ast.get_docstring(node) or ""


def unnamed_parameters(function: Function, class_docstring: str) -> list[str]:
    """Return the parameters that the docstring does not contain as a word, if there are many."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    names = [argument.arg for argument in named if argument.arg not in ("self", "cls")]
    names = [name for name in names if not name.startswith("_")]
    if len(names) < LEAST_PARAMETERS:
        return []
    words = set(re.findall(r"\w+", f"{ast.get_docstring(function)} {class_docstring}"))
    return [name for name in names if name not in words]


def incomplete_docstrings() -> set[str]:
    """Return `path:function: parameters` of each public docstring that leaves some out."""
    incomplete: set[str] = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            body = ast.parse(path.read_text("utf-8")).body
            for name, function, class_docstring in public_functions(body, ""):
                if unnamed := unnamed_parameters(function, class_docstring):
                    place = f"{path.relative_to(ROOT).as_posix()}:{name}"
                    incomplete.add(f"{place}: {', '.join(unnamed)}")
    return incomplete


def test_docstrings_name_every_parameter() -> None:
    assert sorted(incomplete_docstrings()) == [], "name each parameter in the docstring"


def test_a_parameter_that_is_not_named_is_found() -> None:
    source = (
        'def scale(height: int, width: int, ratio: float) -> None:\n    """Scale `height`."""\n'
    )
    ((_, function, _),) = public_functions(ast.parse(source).body, "")
    assert unnamed_parameters(function, "") == ["width", "ratio"]
    assert unnamed_parameters(function, "Scale `width` by `ratio`.") == []
