"""The tree stays one that a reader can look through: small folders, short files, plain calls."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("cli", "mlscope", "schemas", "services", "tools")
FAMILIES = {
    "cli/commands",
    "schemas/v1",
    "services/agent/steps/operators",
    "services/analyzer/tables",
    "services/gateway/static/css",
    "services/gateway/templates",
}
"""Folders with a file for each command, message, operator, table or page: one knows the name."""
FILES = [
    path
    for package in PRODUCT
    for path in (ROOT / package).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
]
MODULES = [path for path in FILES if path.suffix == ".py"]


def test_no_folder_but_a_family_has_more_than_20_files() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES)
    crowded = {folder for folder, count in counts.items() if count > 20}
    assert crowded <= FAMILIES, crowded - FAMILIES


def test_no_module_has_more_than_399_lines() -> None:
    texts = {path: path.read_text("utf-8") for path in MODULES}
    assert [str(path) for path, text in texts.items() if text.count("\n") > 399] == []


def test_no_tuple_is_written_only_to_be_unpacked() -> None:
    """Such a tuple hides how many elements or arguments there are from the formatter."""
    unpacked = [
        f"{path}:{node.lineno}"
        for path in MODULES
        if "*(" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple)
    ]
    assert unpacked == []
