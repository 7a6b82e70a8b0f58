"""Modules that say "Pure" reach no I/O: neither by their own imports nor through others."""

import ast
import re
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("schemas", "mlscope", "services", "cli", "tools")
IMPURE = frozenset(
    {
        "asyncio",
        "ctypes",
        "http",
        "mmap",
        "multiprocessing",
        "nats",
        "os",
        "psycopg",
        "select",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "starlette",
        "subprocess",
        "tempfile",
        "threading",
        "urllib.request",
        "uvicorn",
    }
)
"""Modules through which the world is touched; a `Path` or a stamp alone is a value."""
_CLAIM = re.compile(r"\bpure\b(?! but)(?! bytes)", re.IGNORECASE)


def module_name(path: Path) -> str:
    """Return the dotted name of a file below the repository."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def claims_purity(path: Path) -> bool:
    """Say whether a module's docstring says that it is pure, without exception."""
    return bool(_CLAIM.search(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""))


PURE_MODULES = sorted(
    module_name(path)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if claims_purity(path)
)


@cache
def import_graph() -> grimp.ImportGraph:
    """Return who imports whom, what is imported for type checking alone left out."""
    return grimp.build_graph(
        *PACKAGES, include_external_packages=True, exclude_type_checking_imports=True
    )


def test_many_modules_are_pure() -> None:
    assert len(PURE_MODULES) >= 60


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_pure_module_reaches_no_io(module: str) -> None:
    graph = import_graph()
    impure = sorted(IMPURE & graph.find_upstream_modules(module))
    chains = [" → ".join(graph.find_shortest_chain(module, name) or ()) for name in impure]
    assert chains == []
