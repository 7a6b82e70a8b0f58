"""No program of ours imports modules from the folder that it happens to be started in."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("cli", "mlscope", "services")


def started_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line of each `-m` among arguments, and the argument before it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        arguments = node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])
        words = [one.value if isinstance(one, ast.Constant) else "" for one in arguments]
        for place, word in enumerate(words):
            if word == "-m":
                yield getattr(node, "lineno", 0), str(words[place - 1]) if place else ""


@pytest.mark.parametrize("room", ROOMS)
def test_each_module_is_started_without_the_working_folder(room: str) -> None:
    """`python -m` alone puts it first: in /tmp, anybody's `cli/main.py` would be ours."""
    paths = sorted((ROOT / room).rglob("*.py"))
    unsafe = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths
        for line, before in started_modules(path)
        if before != "-P"
    ]
    assert unsafe == []
    assert any(list(started_modules(path)) for path in paths)
