"""Per cent is written one way wherever a person reads it: 95%, as values are."""

import re
from pathlib import Path

from tests.docs.pages import DOCS

_ROOT = DOCS.parent
_SPACES = " \N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"
# A template's %} and Python's remainder are none.
_APART = re.compile(rf"\d[{_SPACES}]%(?!\}}| ?[\d(]| len\b)")
_PLACES = {"docs": "*.md", "services": "*.py", "cli": "*.py", "mlscope": "*.py", "schemas": "*.py"}


def texts() -> list[Path]:
    """Return the files whose texts people read."""
    pages = (_ROOT / "services" / "gateway" / "templates").rglob("*.html")
    inside = (path for place, kind in _PLACES.items() for path in (_ROOT / place).rglob(kind))
    return [*_ROOT.glob("*.md"), *pages, *inside]


def test_no_space_stands_before_a_per_cent_sign() -> None:
    apart = {
        f"{path.relative_to(_ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _APART.search(line)
    }
    assert apart == set()
