"""SQL statements in files, each with a name and a description.

-- name --
-- What it does, and the columns it returns.
SELECT …
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_HEADER = re.compile(
    r"^-- (?P<name>[a-z][a-z0-9_]*) --\n(?P<description>(?:-- .*\n)+)", re.MULTILINE
)


def statements_in(text: str) -> Mapping[str, str]:
    """Return the statements in a file's text by name. Raises ValueError for a repeated name."""
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    statements: dict[str, str] = {}
    for header, end in zip(headers, ends, strict=True):
        name = header["name"]
        if name in statements:
            raise ValueError(f"statement {name} occurs twice")
        statements[name] = text[header.end() : end].strip().removesuffix(";")
    return MappingProxyType(statements)


def read_statements(path: Path) -> Mapping[str, str]:
    """Return the statements of the file at `path` by name."""
    return statements_in(path.read_text())
