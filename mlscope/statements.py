"""SQL in files of its own: each statement named and described.

-- name --
-- What it does, and the columns it answers.
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
    """Return the statements of a file by name. Raises ValueError for a name said twice."""
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    found: dict[str, str] = {}
    for header, end in zip(headers, ends, strict=True):
        name = header["name"]
        if name in found:
            raise ValueError(f"statement {name} is there twice")
        found[name] = text[header.end() : end].strip().removesuffix(";")
    return MappingProxyType(found)


def read_statements(path: Path) -> Mapping[str, str]:
    """Return the statements of the file at `path` by name."""
    return statements_in(path.read_text())
