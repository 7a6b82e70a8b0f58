"""The documentation builds without a warning, and names only files that exist."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, REPOSITORY

_PATH = re.compile(
    r"`((?:schemas|mlscope|services|cli|tools|tests|benchmarks|manifests|docs)/[\w./-]+)`"
)
_MODULE = re.compile(r"`([\w-]+\.py)`")


def test_it_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "cache"), str(DOCS), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = [path for path in _PATH.findall(page.read_text()) if "<" not in path]
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_module_that_a_page_names_by_itself_exists(page: Path) -> None:
    """A bare name such as `service.py` is that of a file anywhere in the tree."""
    assert set(_MODULE.findall(page.read_text())) - _modules() == set()


@cache
def _modules() -> set[str]:
    folders = ("schemas", "mlscope", "services", "cli", "tools", "tests", "benchmarks")
    return {path.name for folder in folders for path in (REPOSITORY / folder).rglob("*.py")}
