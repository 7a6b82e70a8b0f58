"""Modules that say "Pure" reach no I/O: neither by their own imports nor through others."""

import ast
import re
import tomllib
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
    text = path.read_text("utf-8")
    # Hardly any module has the word: only these are worth the time to parse them.
    return bool(_CLAIM.search(text) and _CLAIM.search(ast.get_docstring(ast.parse(text)) or ""))


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


def modules_without_io() -> list[str]:
    """Return the modules and packages that a contract of import-linter keeps from I/O."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    return [
        module
        for contract in settings["contracts"]
        if contract["type"] == "forbidden" and "subprocess" in contract["forbidden_modules"]
        for module in contract["source_modules"]
    ]


def test_many_modules_are_pure() -> None:
    assert len(PURE_MODULES) >= 60


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_pure_module_reaches_no_io(module: str) -> None:
    graph = import_graph()
    impure = sorted(IMPURE & graph.find_upstream_modules(module))
    chains = [" → ".join(graph.find_shortest_chain(module, name) or ()) for name in impure]
    assert chains == []


def test_a_module_that_says_pure_of_itself_is_in_a_contract() -> None:
    kept = tuple(f"{name}." for name in modules_without_io())
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    # In small letters the word is about some of a module's functions, or about modules below it.
    claiming = [path for path in files if re.search(r"\bPure\b", path.read_text("utf-8"))]
    assert [name for name in map(module_name, claiming) if not f"{name}.".startswith(kept)] == []
